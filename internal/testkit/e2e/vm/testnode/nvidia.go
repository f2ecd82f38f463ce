package testnode

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"dcm/internal/gpu/nvml/standin"
	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/e2e"
)

const (
	// atPowerOn and a number of GPUs is the state of the stand-in of libnvidia-ml when the
	// machine is switched on: an H100 has no instances then.
	atPowerOn = "/usr/local/lib/nvml.power-on."
	migState  = e2e.MIGState

	// nvidiaNodes does what nvidia-modprobe does when a GPU is bound.
	nvidiaNodes = `#!/bin/sh
[ -n "${LOCKED:-}" ] || LOCKED=1 exec flock /run/nvidia-nodes.lock "$0"
major() { sed -n "s/^ *\([0-9]*\) $1\$/\1/p" /proc/devices; }
node() { [ -c "$1" ] || mknod -m "$2" "$1" c "$3" "$4"; }
modprobe nvidia-uvm
modprobe nvidia-modeset
node /dev/nvidiactl 666 195 255
node /dev/nvidia-modeset 666 195 254
node /dev/nvidia-uvm 666 "$(major nvidia-uvm)" 0
node /dev/nvidia-uvm-tools 666 "$(major nvidia-uvm)" 1
for minor in $(sed -n 's/^Device Minor: *[[:blank:]]*//p' /proc/driver/nvidia/gpus/*/information); do
	node "/dev/nvidia$minor" 666 195 "$minor"
done
mkdir -p /dev/nvidia-caps
node /dev/nvidia-caps/nvidia-cap1 400 "$(major nvidia-caps)" 1
node /dev/nvidia-caps/nvidia-cap2 444 "$(major nvidia-caps)" 2
flock STATE.lock sh -c 'grep -q "^knob nodes" STATE || echo "knob nodes /dev $1" >>STATE' sh "$(major nvidia-caps)"
`
	powerOnUnit = `[Unit]
ConditionKernelCommandLine=fakehive.nvidia
DefaultDependencies=no
After=systemd-remount-fs.service
Before=systemd-modules-load.service systemd-udev-trigger.service
[Service]
Type=oneshot
ExecStart=sh -c 'cp ` + atPowerOn + `$$(cat /sys/bus/pci/devices/*/vendor | grep -c 0x10de) ` + migState + `'
`
)

// nvidiaSeed contains the stand-in of libnvidia-ml, which has no effect on AMD GPUs, and the files that a
// distribution installs with the driver.
func nvidiaSeed(ctx context.Context, dir string) (e2e.Seed, error) {
	lib, err := standin.Build(ctx, dir)
	if err != nil {
		return nil, err
	}
	s := e2e.Seed{
		"/usr/local/lib/nvidia-nodes":                                    {Mode: 0o755, Content: []byte(strings.ReplaceAll(nvidiaNodes, "STATE", migState))},
		"/etc/udev/rules.d/60-nvidia.rules":                              {Content: []byte(`ACTION=="add|bind", SUBSYSTEM=="pci", DRIVER=="nvidia", RUN+="/usr/local/lib/nvidia-nodes"` + "\n")},
		"/etc/systemd/system/nvml-power-on.service":                      {Content: []byte(powerOnUnit)},
		"/etc/systemd/system/sysinit.target.wants/nvml-power-on.service": {Link: "../nvml-power-on.service"},
	}
	for _, gpus := range []int{2, 8} {
		state, err := nvidiaState(filepath.Join(dir, "nvml.state"), gpus)
		if err != nil {
			return nil, err
		}
		s[atPowerOn+strconv.Itoa(gpus)] = e2e.File{Content: state}
	}
	return s, s.NVML(lib)
}

// nvidiaState is the state of a number of H100. The driver counts their users.
func nvidiaState(file string, gpus int) ([]byte, error) {
	addresses := []partition.Address{
		"0000:05:00.0", "0000:26:00.0", "0000:46:00.0", "0000:65:00.0", "0000:85:00.0", "0000:a6:00.0", "0000:c6:00.0", "0000:e5:00.0",
	}
	s, err := standin.New("580.82.07", "H100-80GB", addresses[:gpus]...)
	if err != nil {
		return nil, err
	}
	s.Privileged = true
	for i := range s.GPUs {
		s.GPUs[i].Node = fmt.Sprintf("/dev/nvidia%d", i)
	}
	if err := standin.Write(file, s); err != nil {
		return nil, err
	}
	return os.ReadFile(file)
}
