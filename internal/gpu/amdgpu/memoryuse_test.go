package amdgpu

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/sim"
)

// Memory that no process holds shows in every mode. Memory of a process that exists does not count, and that of
// a process that KFD alone still lists does.
func TestMemoryUse(t *testing.T) {
	const gib = uint64(1) << 30
	dead := zombie(t)
	for _, mode := range []partition.Compute{partition.SPX, partition.CPX} {
		for _, test := range []struct {
			name string
			used uint64 // shown by the driver; 0: the sum of the processes
			pid  int
			held uint64
		}{
			{"no process", 149 * gib, 0, 149 * gib},
			{"a small part", 3 * gib, 0, 0},
			{"a process", 0, os.Getpid(), 0},
			{"a process, and more", 60 * gib, os.Getpid(), 50 * gib},
			{"a process that has ended", 0, 1 << 30, 10 * gib},
			{"a zombie", 0, dead, 10 * gib},
		} {
			t.Run(string(mode)+" "+test.name, func(t *testing.T) {
				b := inMode(t, sim.UsagePartitions, mode)
				gpus := gpu.Partitionable(b.devices(t))
				name := string(gpus[0].Address)
				if test.pid != 0 {
					b.use(t, sim.Using{Partition: name + "-0", PID: test.pid, VRAM: 10 * gib})
				}
				if test.used != 0 {
					if err := b.sim.Inject(sim.Fault{Op: sim.OpShow, GPU: gpus[0].Address, File: "mem_info_vram_used", Text: strconv.FormatUint(test.used, 10), Always: true}); err != nil {
						t.Fatal(err)
					}
				}
				uses, err := b.node.all.MemoryUse(patient(t), gpus)
				if err != nil || len(uses) != 2 {
					t.Fatalf("%+v, %v", uses, err)
				}
				if got := uses[0].Held(); uses[0].GPU != gpus[0].Address || got/gib != test.held/gib || uses[1].Held() != 0 {
					t.Errorf("%d GiB held, want %d: %+v", got/gib, test.held/gib, uses)
				}
			})
		}
	}
}

// zombie returns a process that has ended and that no parent waits for until the test ends.
func zombie(t *testing.T) (pid int) {
	t.Helper()
	child := exec.Command("true")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := child.Wait(); err != nil {
			t.Error(err)
		}
	})
	if err := unix.Waitid(unix.P_PID, child.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	return child.Process.Pid
}

// The memory of all contexts of a process is memory of that process.
func TestMemoryUse_Contexts(t *testing.T) {
	const gib = uint64(1) << 30
	b := inMode(t, sim.UsagePartitions, partition.CPX)
	gpus := gpu.Partitionable(b.devices(t))
	name := string(gpus[0].Address) + "-3"
	for context, amount := range map[int]uint64{0: 1, 1: 3, 2: 5} {
		b.use(t, sim.Using{Partition: name, PID: os.Getpid(), VRAM: amount * gib, Context: context})
	}
	if u := b.uses(t)[name]; u.Bytes != 9*gib || !cmp.Equal(u.Processes, []gpu.Process{{PID: os.Getpid(), Bytes: 9 * gib}}) {
		t.Errorf("%d bytes of %+v, want 9 GiB of one process", u.Bytes, u.Processes)
	}
	uses, err := b.node.all.MemoryUse(patient(t), gpus)
	if err != nil || uses[0].Held() != 0 || uses[0].Visible != 9*gib {
		t.Errorf("%+v, %v", uses, err)
	}
}

// Several descriptors can be of one client, and kernels have different names for the same amount.
func TestDRMMemory(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"0": "pos:\t0\nflags:\t02\n",
		"3": "drm-driver:\tamdgpu\ndrm-client-id:\t7\ndrm-pdev:\t0000:05:00.0\ndrm-memory-vram:\t2048 KiB\n",
		"4": "drm-driver:\tamdgpu\ndrm-client-id:\t7\ndrm-pdev:\t0000:05:00.0\ndrm-memory-vram:\t2048 KiB\n",
		"5": "drm-driver:\tamdgpu\ndrm-client-id:\t9\ndrm-pdev:\t0000:05:00.0\ndrm-resident-vram:\t3 MiB\n",
		"6": "drm-driver:\tamdgpu\ndrm-client-id:\t11\ndrm-pdev:\t0000:26:00.0\ndrm-resident-vram:\t512\ndrm-memory-vram:\tmany KiB\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := drmMemory(dir)
	if diff := cmp.Diff(map[partition.Address]uint64{"0000:05:00.0": 5 << 20, "0000:26:00.0": 512}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
