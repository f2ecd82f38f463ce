package e2e

import (
	"embed"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"dcm/internal/gpu/nvml/standin"
)

//go:embed node
var nodeFiles embed.FS

//go:embed kubernetes.json
var kubernetes string

// Kubernetes is a configuration of AMD's device-config-manager for Kubernetes, with the
// profiles cpx-profile and spx-profile and two clients.
func Kubernetes() string { return kubernetes }

// Node returns the seed of a host with simulated GPUs of one kind. The simulator is an early
// unit; its files are mounted at the paths of the kernel's. The seed also has a stand-in for
// modprobe and rmmod, and units that use the GPUs or do not. sim is the static binary of the simulator.
func Node(kind, sim string) (Seed, error) {
	program, err := os.ReadFile(sim)
	if err != nil {
		return nil, err
	}
	seed := Seed{
		"/etc/hostname":          {Content: []byte("gpu-node\n")},
		"/etc/e2e/kind":          {Content: []byte("KIND=" + kind + "\nSIM_OPTIONS=--mig=" + MIGState + "\n")},
		"/usr/local/bin/dcm-sim": {Content: program, Mode: 0o755},
		"/usr/sbin/modprobe":     {Link: "/usr/local/bin/dcm-sim"},
		"/usr/sbin/rmmod":        {Link: "/usr/local/bin/dcm-sim"},
		"/etc/systemd/system/sysinit.target.wants/e2e-node.service": {Link: "../e2e-node.service"},
	}
	for _, unit := range []string{"amd-metrics-exporter", "gpuagent", "dashboard"} {
		seed["/etc/systemd/system/multi-user.target.wants/"+unit+".service"] = File{Link: "../" + unit + ".service"}
	}
	err = fs.WalkDir(nodeFiles, "node", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := nodeFiles.ReadFile(path)
		seed[strings.TrimPrefix(path, "node")] = File{Content: content, Mode: modeOf(path)}
		return err
	})
	return seed, err
}

// MIGState is the file in which the stand-in of NVIDIA's library stores the GPUs' MIG modes and
// instances. It is on the disk, because some GPUs keep the MIG mode over a reboot.
const MIGState = "/var/lib/dcm-sim/nvml"

// NVML adds the stand-in of NVIDIA's library at Debian's path of the real one. lib is its file.
func (s Seed) NVML(lib string) error {
	const place = "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"
	content, err := os.ReadFile(lib)
	if err != nil {
		return err
	}
	s[place] = File{Content: content, Mode: 0o755}
	s[standin.StateOf(place)] = File{Link: MIGState}
	s[filepath.Dir(MIGState)+"/README"] = File{Content: []byte("MIG modes and instances of the simulated GPUs.\n")}
	return nil
}

// NVIDIA adds the stand-in of NVIDIA's library, and the settings that dcm's units need in a container. lib is the stand-in's file.
func (s Seed) NVIDIA(lib string) error {
	if err := s.NVML(lib); err != nil {
		return err
	}
	// systemd 252 mounts a new /proc for units, without the simulated files.
	for _, unit := range []string{"dcm", "dcm-apply", "dcm-change", "dcm-reserve", "dcm-make@"} {
		s["/etc/systemd/system/"+unit+".service.d/sim.conf"] = File{Content: []byte("[Service]\nBindReadOnlyPaths=-/run/dcm-sim/proc/driver:/proc/driver\n")}
	}
	// systemd finds char-nvidia-caps in /proc/devices, which a container shares with its host.
	for _, unit := range []string{"dcm", "dcm-reserve"} {
		s["/etc/systemd/system/"+unit+".service.d/caps.conf"] = File{Content: []byte("[Service]\nDeviceAllow=char-509 rw\n")}
	}
	return nil
}

// CharacterDevices adds an early unit that replaces the simulator's files of the partitions by character devices. They
// have no driver, so that an open fails with ENXIO, or with EPERM where the device list of a unit forbids it. /dev/kfd
// stays a file of the simulator, which sees who has it open.
func (s Seed) CharacterDevices() {
	s[DevicePrograms] = File{}
	s["/usr/local/lib/e2e-character-devices"] = File{Mode: 0o755, Content: []byte(`#!/bin/sh
if mountpoint -q /dev/dri; then
	umount /dev/dri
	for i in $(seq 128 191); do mknod -m 666 /dev/dri/renderD$i c 226 $i; mknod -m 666 /dev/dri/card$((i-128)) c 226 $((i-128)); done
fi
if [ -e /dev/nvidiactl ]; then
	gpus=$(ls -d /dev/nvidia[0-9]*)
	umount /dev/nvidia*; rm -r /dev/nvidia*
	for gpu in $gpus; do mknod -m 666 "$gpu" c 195 "${gpu#/dev/nvidia}"; done
	mknod -m 666 /dev/nvidiactl c 195 255; mknod -m 666 /dev/nvidia-modeset c 195 254
	mknod -m 666 /dev/nvidia-uvm c 510 0; mknod -m 666 /dev/nvidia-uvm-tools c 510 1
	mkdir /dev/nvidia-caps
	mknod -m 600 /dev/nvidia-caps/nvidia-cap1 c 509 1; mknod -m 666 /dev/nvidia-caps/nvidia-cap2 c 509 2
	grep -qx 'knob nodes /dev 509' ` + MIGState + ` || echo 'knob nodes /dev 509' >>` + MIGState + `
fi
mkdir -p /sys/fs/bpf; mountpoint -q /sys/fs/bpf || mount -t bpf bpf /sys/fs/bpf
`)}
	s["/etc/systemd/system/e2e-character-devices.service"] = File{Content: []byte(`[Unit]
DefaultDependencies=no
Requires=e2e-node.service
After=e2e-node.service
Before=sysinit.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/lib/e2e-character-devices
`)}
	s["/etc/systemd/system/sysinit.target.wants/e2e-character-devices.service"] = File{Link: "../e2e-character-devices.service"}
}

// DevicePrograms is a file. If it exists, systemd in the container attaches device programs
// to cgroups, as on a host. Without it DeviceAllow= has no effect there.
const DevicePrograms = "/etc/e2e/device-programs"

// modeOf returns the mode of an embedded file, which has none of its own.
func modeOf(path string) os.FileMode {
	if filepath.Base(filepath.Dir(path)) == "system" {
		return 0o644
	}
	return 0o755
}
