package amdgpu

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dcm/internal/gpu/amdsmi/standin"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/sysfs"
)

func TestLibrary_SetAndReadBack(t *testing.T) {
	for _, g := range standin.Generations() {
		t.Run(g.Name, func(t *testing.T) {
			f := smiFixture(t)
			n := whole(f.roots(), Library(smiOn(t, f, g), true))
			for _, mode := range []partition.Compute{partition.DPX, partition.QPX, partition.CPX, partition.SPX} {
				if err := n.SetCompute(t.Context(), gpuB, mode); err != nil {
					t.Fatal(err)
				}
				if got := f.text(pciFile(gpuB, computeFile)); got != string(mode) {
					t.Errorf("set %s, the GPU has %s", mode, got)
				}
			}
			err := n.SetMemory(t.Context(), gpuA, partition.NPS4)
			got := f.text(pciFile(gpuA, memoryFile))
			if g.Name == "towards-6.3" {
				wantSMIError(t, err, "unknown-number", "are not known")
				if got != "NPS1" || Hint(err) == "" || IsTransient(err) {
					t.Errorf("mode %s, hint %q, transient %v", got, Hint(err), IsTransient(err))
				}
				return
			}
			if err != nil || got != "NPS4" {
				t.Errorf("set NPS4, the GPU has %s: %v", got, err)
			}
		})
	}
}

func (f *fixture) text(name string) string {
	f.t.Helper()
	text, err := sysfs.Read(f.path(name))
	f.must(err)
	return text
}

func TestLibrary_SetsWrongMode(t *testing.T) {
	f := smiFixture(t)
	n := whole(f.roots(), Library(smiOn(t, f, standin.Latest(), "set-wrong DPX"), true))
	err := n.SetCompute(t.Context(), gpuA, partition.CPX)
	var disagree *DisagreementError
	if !errors.As(err, &disagree) || disagree.ReadLibrary != "DPX" || disagree.ReadFile != "DPX" || disagree.Number != 5 {
		t.Fatalf("error %v", err)
	}
	want := "set CPX on 0000:05:00.0 through amdsmi 27.1.0 (number 5): the library reads DPX, but current_compute_partition reads DPX"
	if err.Error() != want || IsTransient(err) || Hint(err) == "" {
		t.Errorf("error %q, want %q; transient %v, hint %q", err, want, IsTransient(err), Hint(err))
	}
}

// The library reports that it set CPX, and reads CPX back, but sysfs has another mode.
func TestLibrary_ClaimsMode(t *testing.T) {
	f := smiFixture(t)
	smi := smiOn(t, f, standin.Latest())
	// The library reads another tree than the one that dcm reads.
	other := smiFixture(t)
	other.write("sys/module/amdgpu/initstate", "live\n")
	f.must(standin.Turn(smi.Library, "sys "+other.path("sys")))
	err := whole(f.roots(), Library(smi, true)).SetCompute(t.Context(), gpuA, partition.CPX)
	want := "the library reads CPX, but current_compute_partition reads SPX"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want one with %q", err, want)
	}
}

func TestLibrary_StatusAsErrno(t *testing.T) {
	for _, c := range []struct {
		status    string
		errno     error
		transient bool
	}{
		{"30", unix.EBUSY, true},
		{"1", unix.EINVAL, false},
		{"4294967295", unix.EINVAL, false},
		{"55", unix.EINVAL, false},
		{"42", unix.EIO, false},
		{"43", unix.ENXIO, false},
		{"10", unix.EACCES, false},
		{"2", unix.EPERM, true}, // the device lists the mode, so that it is supported
		{"77", nil, false},
	} {
		t.Run(c.status, func(t *testing.T) {
			f := smiFixture(t)
			smi := smiOn(t, f, standin.Latest(), "set-status "+c.status)
			n := whole(f.roots(), Library(smi, true), BusyRetry(time.Millisecond, time.Millisecond))
			err := n.SetCompute(t.Context(), gpuA, partition.CPX)
			if err == nil || c.errno != nil && !errors.Is(err, c.errno) || IsTransient(err) != c.transient {
				t.Errorf("error %v, transient %v", err, IsTransient(err))
			}
			if !strings.Contains(err.Error(), "status "+c.status) {
				t.Errorf("error %q lacks the status", err)
			}
		})
	}
}

func TestLibrary_UnlistedMode(t *testing.T) {
	f := smiFixture(t)
	f.must(os.Remove(f.path(pciFile(gpuA, availableComputeFile))))
	n := whole(f.roots(), Library(smiOn(t, f, standin.Latest(), "set-status 2"), true))
	if err := n.SetCompute(t.Context(), gpuA, partition.CPX); !errors.Is(err, unix.EOPNOTSUPP) || IsTransient(err) {
		t.Errorf("error %v, transient %v", err, IsTransient(err))
	}
}

// The library crashes after a set; the mode is read from sysfs.
func TestLibrary_CrashAfterSwitch(t *testing.T) {
	f := smiFixture(t)
	n := whole(f.roots(), Library(smiOn(t, f, standin.Latest(), "set-abort"), true))
	err := n.SetCompute(t.Context(), gpuA, partition.CPX)
	wantSMIError(t, err, "no-answer", "it now reads CPX")
}

func TestLibrary_ConcurrentSwitches(t *testing.T) {
	f := smiFixture(t)
	n := whole(f.roots(), Library(smiOn(t, f, standin.Latest()), true))
	steps := []partition.Step{
		{Kind: partition.SwitchCompute, GPU: gpuA, From: "SPX", To: "CPX"},
		{Kind: partition.SwitchCompute, GPU: gpuB, From: "SPX", To: "QPX"},
	}
	if err := n.modes.switchAll(t.Context(), steps, func(partition.Step, bool, error) {}); err != nil {
		t.Fatal(err)
	}
	if a, b := f.text(pciFile(gpuA, computeFile)), f.text(pciFile(gpuB, computeFile)); a != "CPX" || b != "QPX" {
		t.Errorf("modes %s and %s", a, b)
	}
}
