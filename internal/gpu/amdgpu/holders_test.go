package amdgpu

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// process adds a process that has the paths open. A path that starts with "/" is one of another
// mount namespace.
func (f *fixture) process(pid int, comm, cmdline, cgroup string, open ...string) {
	f.t.Helper()
	dir := fmt.Sprintf("proc/%d", pid)
	f.write(dir+"/comm", comm+"\n")
	f.write(dir+"/cmdline", cmdline)
	f.write(dir+"/cgroup", "0::"+cgroup+"\n")
	f.must(os.MkdirAll(f.path(dir, "fd"), 0o755))
	for i, path := range open {
		if !filepath.IsAbs(path) {
			path = f.path(path)
		}
		f.link(fmt.Sprintf("%s/fd/%d", dir, i), path)
	}
}

// devices adds the device files of two MI300X in DPX, and of a BMC.
func (f *fixture) devices() {
	f.t.Helper()
	f.mi300x("0000:0c:00.0", "card1")
	f.mi300x("0000:22:00.0", "card2")
	f.function("0000:c3:00.0", "030000", "1a03:2000", "ast", "card0")
	for _, name := range []string{"kfd", "dri/card0", "dri/card1", "dri/card2", "dri/renderD128", "dri/renderD129", "dri/renderD136"} {
		f.write("dev/"+name, "")
	}
	pci := f.path("sys/bus/pci/devices")
	for card, parent := range map[string]string{
		"card0": "0000:c3:00.0", "card1": "0000:0c:00.0", "card2": "0000:22:00.0",
		"renderD128": "0000:0c:00.0", "renderD136": "0000:22:00.0",
	} {
		os.Remove(f.path("sys/class/drm", card, "device"))
		f.link("sys/class/drm/"+card+"/device", filepath.Join(pci, parent))
	}
	f.link("sys/class/drm/renderD129/device", "../../../platform/amdgpu_xcp.0")
	f.must(os.MkdirAll(f.path("sys/class/drm/card1-DP-1"), 0o755))
}

func TestHolders(t *testing.T) {
	f := newFixture(t)
	f.devices()
	// elsewhere/dev/dri is another path to the same files, as in another mount namespace.
	f.must(os.MkdirAll(f.path("elsewhere/dev/dri"), 0o755))
	f.must(os.Link(f.path("dev/dri/renderD136"), f.path("elsewhere/dev/dri/renderD128")))
	f.write("elsewhere/dev/kfd", "another device of that name")

	f.process(1, "systemd", "/sbin/init\x00", "/init.scope", "/dev/null")
	f.process(900, "gpuagent", "/usr/bin/gpuagent\x00-v\x00", "/system.slice/gpuagent.service",
		"dev/dri/renderD136", "dev/kfd", "/dev/null", "dev/kfd", "dev/dri/renderD129", "dev/dri/renderD128", "dev/dri/card1")
	f.process(90, "amd-metrics-exp", "/usr/bin/amd-metrics-exporter\x00", "/system.slice/amd-metrics-exporter.service", "dev/kfd")
	f.process(91, "systemd-logind", "", "/system.slice/systemd-logind.service", "dev/dri/card0")
	f.process(92, "python3", "python3\x00", "/machine.slice/machine-a.scope/payload/system.slice/b.service", "elsewhere/dev/dri/renderD128")
	f.process(93, "cat", "", "/", "elsewhere/dev/kfd", "dev/dri/nothing", "proc/1/comm")
	f.process(94, "compute", "", "/user.slice/user-1000.slice/session-3.scope")
	f.process(os.Getpid(), "dcm", "", "/system.slice/dcm.service", "dev/kfd")
	f.write("sys/class/kfd/kfd/proc/94/pasid", "32770\n")
	f.write("sys/class/kfd/kfd/proc/4711/pasid", "32771\n") // has ended
	f.must(os.MkdirAll(f.path("proc/95"), 0o755))           // ends just now

	got, err := whole(f.roots()).Holders(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ours := []partition.Vendor{partition.AMD}
	want := []gpu.Holder{
		{PID: 90, Command: "amd-metrics-exporter", Unit: "amd-metrics-exporter.service", Devices: []string{"/dev/kfd"}, Vendors: ours},
		{PID: 92, Command: "python3", Unit: "machine-a.scope", Devices: []string{"/dev/dri/renderD136"}, Vendors: ours},
		{PID: 94, Command: "compute", Unit: "session-3.scope", Devices: []string{"/dev/kfd"}, Vendors: ours},
		{PID: 900, Command: "gpuagent", Unit: "gpuagent.service", Devices: []string{"/dev/kfd", "/dev/dri/card1", "/dev/dri/renderD128", "/dev/dri/renderD129", "/dev/dri/renderD136"}, Vendors: ours},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("holders (-want +got):\n%s", d)
	}
}

// If a process closes a render node, KFD keeps the node's file (kfd_chardev.c:
// kfd_ioctl_acquire_vm) and the memory of the process in the partition.
func TestHolders_ClosedNodeWithMemory(t *testing.T) {
	f := newFixture(t)
	f.devices()
	f.partition(0, 0x500, 1, 128, "1")
	f.partition(0, 0x500, 1, 136, "2")
	f.write("sys/class/kfd/kfd/topology/nodes/0/gpu_id", "4711\n")
	f.write("sys/class/kfd/kfd/topology/nodes/1/gpu_id", "4712\n")
	for pid, memory := range map[int]string{90: "300", 91: "0"} {
		f.process(pid, "a", "", "/", "dev/kfd")
		dir := fmt.Sprintf("sys/class/kfd/kfd/proc/%d/", pid)
		f.write(dir+"vram_4711", "0\n")
		f.write(dir+"vram_4712", memory+"\n")
	}
	f.write("sys/class/kfd/kfd/proc/4711/vram_4712", "5\n") // has ended
	got, err := whole(f.roots()).Holders(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ours := []partition.Vendor{partition.AMD}
	want := []gpu.Holder{
		{PID: 90, Command: "a", Devices: []string{"/dev/kfd", "/dev/dri/renderD136"}, Vendors: ours},
		{PID: 91, Command: "a", Devices: []string{"/dev/kfd"}, Vendors: ours},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("holders (-want +got):\n%s", d)
	}
}

// With PrivateDevices= the nodes are missing in the /dev of this process, but other processes have
// them open. /dev/null stands for /dev/kfd: the fixture uses its device number.
func TestHolders_HiddenNodes(t *testing.T) {
	f := newFixture(t)
	f.mi300x("0000:05:00.0", "")
	f.write("sys/class/kfd/kfd/dev", "1:3\n")
	f.link("elsewhere/kfd", "/dev/null")
	f.link("elsewhere/card", "/dev/zero")
	f.process(90, "a", "", "/", "elsewhere/kfd")
	f.process(91, "b", "", "/", "elsewhere/card")
	got, err := whole(f.roots()).Holders(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]gpu.Holder{{PID: 90, Command: "a", Devices: []string{"/dev/kfd"}, Vendors: []partition.Vendor{partition.AMD}}}, got); d != "" {
		t.Errorf("holders (-want +got):\n%s", d)
	}
}

func TestHolders_ThisMachine(t *testing.T) {
	_, err := whole(gpu.Roots{Sys: "/sys", Proc: "/proc", Dev: "/dev"}).Holders(t.Context())
	if err != nil && !errors.Is(err, gpu.ErrPartial) {
		t.Error(err)
	}
}

// BenchmarkHolders scans 4000 processes with 25 open files each; 16 of them have a GPU open.
func BenchmarkHolders(b *testing.B) {
	f := newFixture(b)
	f.mi300x("0000:0c:00.0", "card1")
	f.write("dev/kfd", "")
	for pid := 1000; pid < 5000; pid++ {
		open := make([]string, 25)
		for i := range open {
			open[i] = "/usr/lib/x86_64-linux-gnu/libc.so.6"
		}
		if pid%250 == 0 {
			open[24] = "dev/kfd"
		}
		f.process(pid, "worker", "", "/system.slice/worker.service", open...)
	}
	n := whole(f.roots())
	for b.Loop() {
		if got, err := n.Holders(b.Context()); err != nil || len(got) != 16 {
			b.Fatalf("%d holders, %v", len(got), err)
		}
	}
}

// A user chooses the names of processes, which root then reads in a terminal.
func TestHolders_EscapedName(t *testing.T) {
	f := newFixture(t)
	f.devices()
	f.process(7, "\xff\x1b[31m", "", "/system.slice/x.service", "dev/kfd")
	f.process(8, "fifteen-bytes-\xff", "/opt/fifteen-bytes-\xff\u202e\n\x00-v\x00", "/\x1b[2J.service", "dev/kfd")
	got, err := whole(f.roots()).Holders(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, h := range got {
		found = append(found, h.Command+" "+h.Unit)
	}
	if diff := cmp.Diff([]string{`\xff\x1b[31m x.service`, `fifteen-bytes-\xff\u202e\n `}, found); diff != "" {
		t.Errorf("holders (-want +got):\n%s", diff)
	}
}
