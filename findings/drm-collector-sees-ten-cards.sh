#!/bin/bash
# Guess:     the library below node_exporter's drm collector returns each card of the amdgpu driver. Eight
#            GPUs in CPX mode have 64 cards, so a node has 64 entries.
# Behaviour: it looks for /sys/class/drm/card[0-9], which is one digit. The cards from card10 on do not
#            exist for it, without an error.
# Versions seen: github.com/prometheus/procfs v0.23.0
# Met by:    users who sum the memory of a node's GPUs, or alert on a busy one. A node with a graphics
#            card of its management controller and ten GPUs already lacks one.
# Fails:     if the output is not that at the end of this script, which was seen with this version.
set -euo pipefail
dir=$(mktemp -d)
# shellcheck source=findings/lib.bash
. "$(dirname "$0")/lib.bash"

go_module github.com/prometheus/procfs/sysfs@v0.23.0
for number in {0..11}; do
	device=sys/devices/pci0000:00/0000:$((10 + number)):00.0
	mkdir -p "$dir/$device/drm/card$number" "$dir/sys/class/drm"
	echo DRIVER=amdgpu >"$dir/$device/uevent"
	echo 206158430208 >"$dir/$device/mem_info_vram_total"
	ln -s ../.. "$dir/$device/drm/card$number/device"
	ln -s "../../${device#sys/}/drm/card$number" "$dir/sys/class/drm/card$number"
done
cat >"$dir/main.go" <<'END'
package main

import (
	"fmt"
	"os"

	"github.com/prometheus/procfs/sysfs"
)

func main() {
	links, _ := os.ReadDir("sys/class/drm")
	fs, _ := sysfs.NewFS("sys")
	cards, err := fs.ClassDRMCardAMDGPUStats()
	fmt.Printf("%d cards of %d, error %v\n", len(cards), len(links), err)
	last := cards[len(cards)-1]
	fmt.Println("the last one:", last.Name, last.MemoryVRAMSize)
}
END
expect <<'END' || exit 1
10 cards of 12, error <nil>
the last one: card9 206158430208
END
