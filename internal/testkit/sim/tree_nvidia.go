package sim

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
)

// nvidiaVersion is the version of the nvidia module.
const nvidiaVersion = "550.163.01"

func (k Kind) driverVersion() string { return cmp.Or(k.driver, nvidiaVersion) }

// addNVIDIAModule adds /sys/module/nvidia.
func addNVIDIAModule(n *Node, t tree) {
	if n.nvidia == absent {
		return
	}
	const dir = "sys/module/nvidia/"
	t.text(dir+"initstate", string(n.nvidia))
	t.text(dir+"version", n.kind.driverVersion())
	t.put(dir+"refcnt", attribute(0o444, func(context.Context) (string, error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		count := len(nvidiaUsers)
		for h := range n.handles {
			if h.nvidia {
				count++
			}
		}
		return strconv.Itoa(count) + "\n", nil
	}))
	for _, user := range nvidiaUsers {
		t.dir(dir + "holders/" + user)
	}
	modeset := "N"
	if n.opts.Modeset {
		modeset = "Y"
	}
	if n.display != absent {
		const drm = "sys/module/" + displayModule
		t.text(drm+"/initstate", string(n.display))
		t.text(drm+"/parameters/modeset", modeset)
		t.put(drm+"/refcnt", attribute(0o444, func(context.Context) (string, error) {
			n.mu.Lock()
			defer n.mu.Unlock()
			return strconv.Itoa(displayUsers(n)) + "\n", nil
		}))
	}
	t.link(dir+"drivers/pci:nvidia", "sys/bus/pci/drivers/nvidia")
	t.dir("sys/bus/pci/drivers/nvidia")
	t.link("sys/bus/pci/drivers/nvidia/module", "sys/module/nvidia")
}

// nvidiaUsers are the modules that use nvidia.
var nvidiaUsers = [...]string{"nvidia_modeset", "nvidia_uvm"}

// addNVIDIA adds the driver's files in /proc and /dev. The names of its device nodes are always known, so
// that bind mounts over them stay valid after a reload.
func addNVIDIA(n *Node, t tree) {
	boards := nvidias(n)
	if len(boards) == 0 {
		return
	}
	t.dir("proc/driver")
	for i, b := range boards {
		addNVIDIANode(n, t, fmt.Sprintf("nvidia%d", i), b)
	}
	for _, name := range []string{"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"} {
		addNVIDIANode(n, t, name, nil)
	}
	t.put("dev/nvidia-caps", liveDirectory(func() map[string]*Entry { return capNodes(n, boards) }))
	if n.nvidia != live {
		return
	}
	t.put("proc/driver/nvidia", liveDirectory(func() map[string]*Entry { return nvidiaProc(n, boards) }))
	t.text("proc/driver/nvidia-caps/mig-minors", migMinors())
}

func addNVIDIANode(n *Node, t tree, name string, b *board) {
	e := device(func(pid int) (*Handle, error) { return openNVIDIA(n, name, b, noInstance, pid) })
	e.hidden = n.nvidia != live || b != nil && !b.bound
	t.put("dev/"+name, e)
}

// nvidiaProc returns /proc/driver/nvidia, whose capabilities change with the MIG devices.
func nvidiaProc(n *Node, boards []*board) map[string]*Entry {
	t := newTree()
	t.text("version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  "+n.kind.driverVersion()+"  Tue Apr  8 12:41:17 UTC 2025\nGCC version:  gcc version 14.2.0\n")
	for i, b := range boards {
		if b.bound {
			t.text("gpus/"+string(b.Address)+"/information", information(b, i, n.kind.driverVersion()))
		}
	}
	for path, minor := range capabilities(n, boards) {
		t.text("capabilities/"+path, fmt.Sprintf("DeviceFileMinor: %d\nDeviceFileMode: %d\nDeviceFileModify: 1\n", minor, 0o444))
	}
	return t
}

// information returns the driver's file about a bound GPU.
func information(b *board, minor int, version string) string {
	return fmt.Sprintf("Model: \t\t %s\nIRQ:   \t\t %d\nGPU UUID: \t %s\nVideo BIOS: \t 96.00.61.00.01\nBus Type: \t PCIe\n"+
		"DMA Size: \t 52 bits\nDMA Mask: \t 0xfffffffffffff\nBus Location: \t %s\nDevice Minor: \t %d\nGPU Firmware: \t %s\nGPU Excluded:\t No\n",
		b.Chip.Product, 64+bus(b.Address), b.gpuUUID(), b.Address, minor, version)
}

// The minors of nvidia-caps, as the driver numbers them: for each of 32 GPUs 15 GPU instances with 8
// compute instances each.
const (
	capConfig, capMonitor, capFirst = 1, 2, 3
	capsPerGPU, capsPerInstance     = 135, 9
	mostGPUs, mostInstances         = 32, 15
)

func giMinor(gpu, gi int) int { return capFirst + capsPerGPU*gpu + capsPerInstance*gi }

func ciMinor(gpu, gi, ci int) int { return giMinor(gpu, gi) + 1 + ci }

// migMinors returns /proc/driver/nvidia-caps/mig-minors, which never changes.
func migMinors() string {
	var b strings.Builder
	fmt.Fprintf(&b, "config %d\nmonitor %d\n", capConfig, capMonitor)
	for gpu := range mostGPUs {
		for gi := range mostInstances {
			fmt.Fprintf(&b, "gpu%d/gi%d/access %d\n", gpu, gi, giMinor(gpu, gi))
			for ci := range capsPerInstance - 1 {
				fmt.Fprintf(&b, "gpu%d/gi%d/ci%d/access %d\n", gpu, gi, ci, ciMinor(gpu, gi, ci))
			}
		}
	}
	return b.String()
}

// capabilities returns the files below capabilities, with the minors of their nodes.
func capabilities(n *Node, boards []*board) map[string]int {
	out := map[string]int{"mig/config": capConfig, "mig/monitor": capMonitor}
	for gpu, has := range instancesOf(n, boards) {
		for _, gi := range has {
			dir := fmt.Sprintf("gpu%d/mig/gi%d/", gpu, gi.ID)
			out[dir+"access"] = giMinor(gpu, gi.ID)
			for _, ci := range gi.Compute {
				out[fmt.Sprintf("%sci%d/access", dir, ci)] = ciMinor(gpu, gi.ID, ci)
			}
		}
	}
	return out
}

// capNodes returns the nodes of /dev/nvidia-caps.
func capNodes(n *Node, boards []*board) map[string]*Entry {
	t := newTree()
	n.mu.LockRead()
	up := n.nvidia == live
	n.mu.UnlockRead()
	if !up {
		return t
	}
	for _, minor := range capabilities(n, boards) {
		name := fmt.Sprintf("nvidia-cap%d", minor)
		var of *board // none of what is every GPU's
		instance := noInstance
		if gpu := (minor - capFirst) / capsPerGPU; minor >= capFirst && gpu < len(boards) {
			of, instance = boards[gpu], (minor-capFirst)%capsPerGPU/capsPerInstance
		}
		t[name] = device(func(pid int) (*Handle, error) { return openNVIDIA(n, "nvidia-caps/"+name, of, instance, pid) })
	}
	return t
}
