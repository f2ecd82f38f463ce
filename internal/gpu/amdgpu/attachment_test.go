package amdgpu

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/sim"
)

// attachedProcess adds a process with /dev/kfd open, and its files in KFD's directory.
func (f *fixture) attachedProcess(pid int, unit string, gpuIDs ...int) {
	f.t.Helper()
	f.process(pid, "a", "", "/system.slice/"+unit, "dev/kfd")
	f.attachments(pid, gpuIDs...)
}

func (f *fixture) attachments(pid int, gpuIDs ...int) {
	f.t.Helper()
	f.write(fmt.Sprintf("sys/class/kfd/kfd/proc/%d/pasid", pid), "32770\n")
	for _, id := range gpuIDs {
		f.write(fmt.Sprintf("sys/class/kfd/kfd/proc/%d/vram_%d", pid, id), "0\n")
	}
}

func TestHolders_AttachedGPUs(t *testing.T) {
	const one, two = partition.Address("0000:0c:00.0"), partition.Address("0000:22:00.0")
	f := newFixture(t)
	f.devices()
	f.partition(0, 0x0c00, 4, 128, "1")
	f.partition(0, 0x0c01, 4, 129, "1") // as older drivers number partitions
	f.partition(0, 0x10002200, 4, 136, "2")
	for node, id := range []string{"11", "12", "21"} {
		f.write(fmt.Sprintf("sys/class/kfd/kfd/topology/nodes/%d/gpu_id", node), id+"\n")
	}
	f.attachedProcess(90, "a.service", 11, 12)
	f.attachedProcess(91, "b.service", 11, 21)
	f.attachedProcess(92, "c.service", 11, 99) // a node of a GPU that has left the bus
	f.attachedProcess(93, "d.service")         // no file: an unknown driver
	f.process(94, "child", "", "/system.slice/a.service", "dev/kfd")
	f.process(95, "received", "", "/system.slice/e.service", "dev/kfd")
	f.process(96, "render", "", "/system.slice/f.service", "dev/dri/renderD128")

	got, err := whole(f.roots()).Holders(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	attached := make(map[int][]partition.Address)
	for _, h := range got {
		attached[h.PID] = h.Attached
	}
	want := map[int][]partition.Address{90: {one}, 91: {one, two}, 92: {gpu.Removed, one}, 93: nil, 94: {one}, 95: nil, 96: nil}
	if d := cmp.Diff(want, attached); d != "" {
		t.Errorf("attached GPUs (-want +got):\n%s", d)
	}

	f.write("sys/class/kfd/kfd/topology/nodes/3/gpu_id", "31\n") // without properties
	if got, err = whole(f.roots()).Holders(t.Context()); err != nil || got[2].Attached != nil {
		t.Errorf("holder %+v, %v, want that its GPUs are unknown, since a node is", got[2], err)
	}

	f.attachments(4711, 21) // the opener of the received file has ended
	got, err = whole(f.roots()).Holders(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if h := got[5]; h.PID != 95 || !cmp.Equal(h.Attached, []partition.Address{two}) {
		t.Errorf("holder %+v, want the GPU of the ended process", h)
	}
}

// The result of a switch while a process is attached to another GPU shows what the driver checks.
func TestBusyCheck_Evidence(t *testing.T) {
	for _, test := range []struct {
		name   string
		old    bool
		attach int // index of the GPU; -1 for all, -2 for none
		open   string
		want   gpu.BusyCheck
		fails  bool
	}{
		{"no process", false, -2, "", gpu.BusyCheckUnknown, false},
		{"no process, older check", true, -2, "", gpu.BusyCheckUnknown, false},
		{"another GPU", false, 1, "", gpu.BusyCheckGPU, false},
		{"another GPU, older check", true, 1, "", gpu.BusyCheckNode, true},
		{"the same GPU", false, 0, "", gpu.BusyCheckUnknown, true},
		{"the same GPU, older check", true, 0, "", gpu.BusyCheckUnknown, true},
		{"all GPUs", true, -1, "", gpu.BusyCheckUnknown, true},
		{"another GPU, and a node of this one is open", false, 1, "dri/renderD128", gpu.BusyCheckUnknown, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			b := overSysfs(t, "mi300x-8", sim.Options{NodeLock: test.old})
			b.node = whole(b.node.roots, FactDir(dir), BusyRetry(20*time.Millisecond, time.Millisecond))
			devices := b.devices(t)
			if test.attach > -2 {
				nodes := []string{"kfd"}
				if test.attach >= 0 {
					nodes = append(nodes, strings.TrimPrefix(devices[test.attach].RenderNodes[0], "/dev/"))
				}
				b.holds(t, nodes...)
			}
			if test.open != "" {
				b.holds(t, test.open)
			}
			err := b.node.SetCompute(patient(t), devices[0].Address, partition.CPX)
			if errors.Is(err, unix.EBUSY) != test.fails || err != nil && !test.fails {
				t.Errorf("error %v, want EBUSY %t", err, test.fails)
			}
			if got := b.node.all.BusyCheck(partition.AMD); got != test.want {
				t.Errorf("check %q, want %q", got, test.want)
			}
			steps := partition.Steps{{Kind: partition.SwitchCompute, GPU: devices[0].Address, To: "CPX"}}
			if got := len(gpu.Blockers(steps, devices, b.holders(t))) > 0; got != test.fails {
				t.Errorf("a process blocks: %t, want %t", got, test.fails)
			}
			if _, err := os.Stat(dir + "/" + busyCheckFact + ".json"); (err == nil) != (test.want != gpu.BusyCheckUnknown) {
				t.Errorf("stored: %v", err)
			}
		})
	}
}
