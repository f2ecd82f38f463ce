#!/bin/bash
# Guess:     go-systemd's package unit reads each unit file that systemd reads.
# Behaviour: it refuses a file with a line over 2048 bytes. systemd-analyze verify has no objection to the line.
# Versions seen: github.com/coreos/go-systemd/v22 v22.7.0, systemd 252.39-1~deb12u2
# Met by:    tools that read the units of a host with 8 GPUs of 7 MIG instances each. The UUIDs of 49 instances fit in
#            one Environment= line, and those of 56 do not.
# Fails:     if the output is not that at the end of this script, which was seen with these versions.
set -euo pipefail
dir=$(mktemp -d)
# shellcheck source=findings/lib.bash
. "$(dirname "$0")/lib.bash"

debian_package systemd 252.39-1~deb12u2
debian_package libsystemd-shared 252.39-1~deb12u2
go_module github.com/coreos/go-systemd/v22@v22.7.0
cat >"$dir/main.go" <<'END'
package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/coreos/go-systemd/v22/unit"
)

func main() {
	for _, instances := range []int{49, 56} {
		uuids := strings.TrimSuffix(strings.Repeat("MIG-00000000-0000-0000-0000-000000000000,", instances), ",")
		text := "[Service]\nEnvironment=NVIDIA_VISIBLE_DEVICES=" + uuids + "\nExecStart=/bin/true\n"
		if err := os.WriteFile("gpu.service", []byte(text), 0o644); err != nil {
			panic(err)
		}
		options, err := unit.DeserializeOptions(strings.NewReader(text))
		fmt.Printf("%d instances: go-systemd reads %d settings, error: %v\n", instances, len(options), err)

		verify := exec.Command("usr/bin/systemd-analyze", "verify", "--man=no", "./gpu.service")
		verify.Env = append(os.Environ(), "LD_LIBRARY_PATH=usr/lib/x86_64-linux-gnu/systemd")
		warnings, err := verify.CombinedOutput()
		fmt.Printf("%d instances: systemd-analyze verify prints %q, error: %v\n", instances, warnings, err)
	}
}
END
expect <<'END' || exit 1
49 instances: go-systemd reads 2 settings, error: <nil>
49 instances: systemd-analyze verify prints "", error: <nil>
56 instances: go-systemd reads 0 settings, error: line too long (max 2048 bytes)
56 instances: systemd-analyze verify prints "", error: <nil>
END
