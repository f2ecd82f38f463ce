package service

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"dcm/internal/engine/config"
	"dcm/internal/gpu"
	"dcm/internal/gpu/amdgpu"
	"dcm/internal/gpu/made"
	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/sim"
	"dcm/internal/testkit/sim/simtest"
)

// attach starts a process that uses the GPU with that render node, until the test ends.
func attach(t *testing.T, s *simtest.Node, minor int) (end func()) {
	t.Helper()
	node := fmt.Sprintf("%s/dri/renderD%d", s.Dev, minor)
	if minor == 0 { // no DRM node: it is attached to all GPUs
		node = "/dev/null"
	}
	c := exec.Command("sh", "-c", fmt.Sprintf("exec 3<%s 4<%s/kfd; echo; read x", node, s.Dev))
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	end = func() { in.Close(); _ = c.Wait() } // its read fails at the end of the input
	t.Cleanup(end)
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return end
}

// A GPU of a simulated node is switched and switched back while a process uses another GPU. With an
// older driver, that process prevents it.
func TestMakeMode_SimulatedNode(t *testing.T) {
	profile := partition.Profile{Name: "x", Groups: []partition.Group{{Compute: partition.SPX, Rest: true, Dynamic: true}}}
	for _, tt := range []struct {
		name     string
		nodeLock bool
		minor    int   // of the process; 0: none
		want     error // of the switch
		check    gpu.BusyCheck

		everywhere bool // dcm's own process is attached to all GPUs
		unstarted  bool // dcm's own process cannot be started
	}{
		{name: "idle", check: gpu.BusyCheckGPU},
		{name: "idle, older driver", nodeLock: true, want: unix.EBUSY, check: gpu.BusyCheckNode},
		{name: "idle, no device cgroup", everywhere: true, want: errCheckUnknown},
		{name: "idle, process does not start", unstarted: true, want: errCheckUnknown},
		{name: "process on another GPU", minor: 136, check: gpu.BusyCheckGPU},
		{name: "process on another GPU, older driver", nodeLock: true, minor: 136, want: unix.EBUSY, check: gpu.BusyCheckNode},
		{name: "process on the GPU", minor: 128, want: &made.InUseError{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := simtest.Start(t, "mi300x-8", sim.Options{NodeLock: tt.nodeLock})
			roots := gpu.Roots{Sys: s.Sys, Proc: "/proc", Dev: s.Dev}
			claims := made.Claims{Dir: filepath.Join(t.TempDir(), "made")}
			node := gpu.Open(s.Sys, []gpu.Vendor{amdgpu.Open(roots, amdgpu.FactDir(t.TempDir()))}, gpu.Made(claims.Made))
			m := made.Switcher{
				Claims: claims, GPUs: modeNode{node, &config.Config{Selected: "x", Profile: profile}}, Log: slog.New(slog.DiscardHandler),
				Publish: func(context.Context) error { return nil }, Retry: func(error) bool { return false },
			}
			probes := 0
			m.Prove = checkProbe{node, func(_ context.Context, d gpu.Device) (func(), error) {
				if probes++; tt.unstarted {
					return nil, unix.ENOENT
				}
				minor := d.Parts[0].Minor
				if tt.everywhere {
					minor = 0
				}
				return attach(t, s, minor), nil
			}}.begin
			if tt.minor != 0 {
				attach(t, s, tt.minor)
			}
			n := made.Name{GPU: "0000:05:00.0", Profile: "CPX", Rest: partition.SPX}
			err := m.Make(t.Context(), n)
			_, used := errors.AsType[*made.InUseError](tt.want)
			_, inUse := errors.AsType[*made.InUseError](err)
			if used != inUse || !used && !errors.Is(err, tt.want) {
				t.Errorf("switch: got %v, want %v", err, tt.want)
			}
			if used && !strings.Contains(err.Error(), "sh[") {
				t.Errorf("switch: want the process in %v", err)
			}
			mode := func() partition.GPU {
				devices, err := node.Devices(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return devices[0].GPU
			}
			if g := mode(); (g.Compute == partition.CPX) != (err == nil) || g.HasMadeMode() != (err == nil) {
				t.Errorf("mode after the switch: %s, made %+v", g.Compute, g.MadeMode)
			}
			if want := map[bool]int{tt.minor == 0: 1}[true]; probes != want {
				t.Errorf("processes of dcm: got %d, want %d", probes, want)
			}
			if got := node.BusyCheck(partition.AMD); got != tt.check {
				t.Errorf("check: got %q, want %q", got, tt.check)
			}
			if err := m.Unmake(t.Context(), n); err != nil {
				t.Errorf("switch back: %v", err)
			}
			if g := mode(); g.Compute != partition.SPX || g.MadeMode.Compute != "" {
				t.Errorf("mode at the end: %s, made %+v", g.Compute, g.MadeMode)
			}
		})
	}
}

// The driver resets the settings at each switch. The switch for a lease keeps them.
func TestMakeMode_KeepsSettings(t *testing.T) {
	s := simtest.Start(t, "mi300x-8", sim.Options{Allocation: true, Cleaner: true})
	gpus := s.State().GPUs
	if err := s.SetAllocation(t.Context(), gpus[0].Address, "ALL"); err != nil {
		t.Fatal(err)
	}
	if err := s.SetIsolation(t.Context(), gpus[1].Address, "1"); err != nil {
		t.Fatal(err)
	}
	roots := gpu.Roots{Sys: s.Sys, Proc: "/proc", Dev: s.Dev}
	m := modeNode{node: gpu.Open(s.Sys, []gpu.Vendor{amdgpu.Open(roots, amdgpu.FactDir(t.TempDir()))})}
	for i, want := range []partition.Settings{{Allocation: partition.All, Isolation: partition.NotIsolated}, {Allocation: partition.Capping, Isolation: partition.Isolated}} {
		if err := m.Switch(t.Context(), gpus[i].Address, partition.SPX, partition.CPX); err != nil {
			t.Fatal(err)
		}
		if g := s.State().GPUs[i]; g.Compute != partition.CPX || g.Allocation != want.Allocation || g.Isolation != want.Isolation.Numbers(8) {
			t.Errorf("%s: %s, %s, %s; want CPX, %v", g.Address, g.Compute, g.Allocation, g.Isolation, want)
		}
	}
}
