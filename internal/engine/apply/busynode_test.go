package apply

import (
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/amdgpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/sim"
)

// A driver before Linux 6.17 refuses a switch while a process uses another GPU. The first attempt
// shows it. The error must not say that the process uses the changed GPU.
func TestRun_ProcessOnAnotherGPU(t *testing.T) {
	for _, tt := range []struct {
		name string
		opts []amdgpu.Option
		want string
	}{
		{"the evidence is stored", []amdgpu.Option{amdgpu.FactDir(t.TempDir())}, "for the whole node"},
		{"no evidence is stored", nil, "an older driver checks the whole node"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBenchWith(t, "mi300x-8", sim.Options{NodeLock: true})
			b.node = over(b.sim, append(tt.opts, amdgpu.BusyRetry(50*time.Millisecond, 5*time.Millisecond))...)
			pid := b.useGPU(first)
			p := profile(partition.SPX, partition.NPS1)
			for i := range 8 {
				g := partition.Group{Compute: partition.SPX, GPUs: []partition.Selector{{Index: i}}}
				if i == 2 {
					g.Compute = partition.CPX
				}
				p.Groups = append(p.Groups, g)
			}
			p.Compute = ""
			run := b.run(p)
			if run.Result != runstate.RolledBack || run.Error == nil || !run.Error.Transient {
				t.Fatalf("%s, %+v; want a transient error and an undo", run.Result, run.Error)
			}
			for _, want := range []string{tt.want, fmt.Sprintf("sh (pid %d, ", pid)} {
				if !strings.Contains(run.Error.Text, want) {
					t.Errorf("error %q, want %q in it", run.Error.Text, want)
				}
			}
			if wrong := "no process has a GPU open"; strings.Contains(run.Error.Text, wrong) {
				t.Errorf("error %q, which has %q", run.Error.Text, wrong)
			}
		})
	}
}

// useGPU starts a process that is attached to one GPU, until the test ends.
func (b *bench) useGPU(of partition.Address) (pid int) {
	b.t.Helper()
	devices, err := b.node.Devices(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	for _, d := range devices {
		if d.Address != of {
			continue
		}
		cmd := exec.Command("/bin/sh", "-c", `exec 3<"$0/kfd" 4<"$0/dri/$1"; echo open; read x`, b.sim.Dev, filepath.Base(d.RenderNodes[0]))
		in, err := cmd.StdinPipe()
		if err != nil {
			b.t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			b.t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			b.t.Fatal(err)
		}
		b.t.Cleanup(func() {
			in.Close()
			cmd.Wait()
		})
		if _, err := io.ReadFull(out, make([]byte, len("open\n"))); err != nil {
			b.t.Fatal(err)
		}
		return cmd.Process.Pid
	}
	b.t.Fatalf("no GPU %s", of)
	return 0
}
