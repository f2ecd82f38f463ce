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

// Kubernetes is a configuration as AMD's device config manager for Kubernetes
// reads it, with the profiles cpx-profile and spx-profile and two clients.
func Kubernetes() string { return kubernetes }

// Node is the seed of a host with simulated GPUs of one kind: the simulator as an
// early unit, what it shows mounted where the kernel would show it, modprobe
// replaced by its stand-in, and some units that use the GPUs or do not. sim is
// the simulator's static binary.
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

// MIGState is the file in which the stand-in of NVIDIA's library keeps what the GPUs
// have, on a disk: some of them keep it over a reboot.
const MIGState = "/var/lib/dcm-sim/nvml"

// NVML adds the stand-in of NVIDIA's library where Debian has the real one. lib is its
// file.
func (s Seed) NVML(lib string) error {
	const place = "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"
	content, err := os.ReadFile(lib)
	if err != nil {
		return err
	}
	s[place] = File{Content: content, Mode: 0o755}
	s[standin.StateOf(place)] = File{Link: MIGState}
	s[filepath.Dir(MIGState)+"/README"] = File{Content: []byte("What the simulated GPUs have.\n")}
	return nil
}

// DevicePrograms is a file that has a container's systemd, and what it starts, load
// programs that decide who may open a device, as on a host. Without it a unit's list of
// devices has no effect there.
const DevicePrograms = "/etc/e2e/device-programs"

// modeOf makes up for an embedded file having no mode of its own.
func modeOf(path string) os.FileMode {
	if filepath.Base(filepath.Dir(path)) == "system" {
		return 0o644
	}
	return 0o755
}
