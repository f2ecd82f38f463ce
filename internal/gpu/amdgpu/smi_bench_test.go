package amdgpu

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"dcm/internal/gpu"
	"dcm/internal/gpu/amdsmi/standin"
	"dcm/internal/testkit/sim"
	"dcm/internal/testkit/sim/simtest"
)

// BenchmarkInventory compares `dcm gpus` on eight GPUs with and without AMD's library: the time,
// and the memory of dcm-smi. The files of the simulated node are slower than those of the kernel,
// and the library reads thousands of them.
func BenchmarkInventory(b *testing.B) {
	smiProgram(b) // sets TMPDIR, under which the node is mounted
	node := simtest.Start(b, "mi300x-8", sim.Options{})
	roots := gpu.Roots{Sys: node.Sys, Proc: "/proc", Dev: node.Dev}
	b.Run("sysfs", func(b *testing.B) { readInventory(b, whole(roots)) })
	b.Run("stand-in", func(b *testing.B) {
		smi := standinOver(b, node.Sys, standin.Latest())
		readInventory(b, whole(roots, Library(smi, false)))
		b.ReportMetric(peak(b, smi), "MiB-dcm-smi")
	})
	for _, r := range reals() {
		b.Run(r.version, func(b *testing.B) {
			smi := r.install(b, r.root(b), node.Sys)
			readInventory(b, whole(roots, Library(smi, false)))
			b.ReportMetric(peak(b, smi), "MiB-dcm-smi")
		})
	}
}

func readInventory(b *testing.B, n node) {
	b.Helper()
	for b.Loop() {
		devices, err := n.all.Devices(b.Context())
		if err == nil {
			err = n.all.Enrich(b.Context(), devices)
		}
		if err != nil || len(devices) != 8 {
			b.Fatalf("%d devices: %v", len(devices), err)
		}
	}
}

// peak returns the maximum memory of dcm-smi in MiB. wait4(2) would include the memory of this
// process, which starts dcm-smi by vfork(2).
func peak(b *testing.B, s SMI) float64 {
	b.Helper()
	var out bytes.Buffer
	cmd := exec.CommandContext(b.Context(), s.Program, "--private")
	cmd.Stdin, cmd.Stdout = bytes.NewReader(fmt.Appendf(nil, `{"do":"inventory","library":%q}`, s.Library)), &out
	cmd.SysProcAttr = ownMounts()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	most := 0
	for {
		select {
		case err := <-ended:
			if err != nil {
				b.Fatalf("%v: %s", err, out.String())
			}
			return float64(most) / 1024
		case <-tick.C:
			most = max(most, highWater(cmd.Process.Pid))
		}
	}
}

// highWater reads VmHWM of proc_pid_status(5), in KiB. It returns 0 if the process has ended.
func highWater(pid int) (kib int) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if n, _ := fmt.Sscanf(lines.Text(), "VmHWM: %d kB", &kib); n == 1 {
			return kib
		}
	}
	return 0
}
