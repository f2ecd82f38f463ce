package amdgpu

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dcm/internal/gpu"
	"dcm/internal/testkit/testdeadline"
)

func (f *fixture) open(opts ...Option) node {
	return whole(f.roots(), append([]Option{BusyRetry(50*time.Millisecond, time.Millisecond)}, opts...)...)
}

// soon returns a context with a short timeout that is still long enough for one read of the devices
// on a busy machine.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// patient returns a context with a timeout that only a hanging test exceeds.
func patient(t *testing.T) context.Context {
	ctx, cancel := testdeadline.Context(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestWait_AllReadyNeedsNoEvents(t *testing.T) {
	f := newFixture(t)
	f.mi300x("0000:05:00.0", "card1")
	n := f.open().with(gpu.Events(func(context.Context, func(string, string) bool) <-chan struct{} {
		t.Error("Wait subscribed to uevents, want none if all GPUs are ready")
		return nil
	}))
	if _, err := n.all.Wait(patient(t)); err != nil {
		t.Fatal(err)
	}
}

func TestWait_NamesMissingGPUs(t *testing.T) {
	const ready = "0000:05:00.0"
	for _, test := range []struct {
		name string
		make func(*fixture)
		want string // "" if there is nothing to wait for
	}{
		{"ready", func(*fixture) {}, ""},
		{"not bound", func(f *fixture) {
			f.write("sys/module/amdgpu/initstate", "live\n")
			f.function("0000:0c:00.0", "120000", "1002:74a1", "", "")
		}, "0000:0c:00.0 (MI300X): driver not bound"},
		{"not loaded", func(f *fixture) {
			f.function("0000:0c:00.0", "120000", "1002:74a1", "", "")
			f.function("0000:22:00.0", "120000", "1002:74a1", "", "")
		}, "0000:0c:00.0 (MI300X): the amdgpu driver is not loaded; 0000:22:00.0 (MI300X): the amdgpu driver is not loaded"},
		{"in the middle of probing", func(f *fixture) {
			f.function("0000:0c:00.0", "120000", "1002:74a1", "amdgpu", "")
			f.modes("0000:0c:00.0", "SPX", "SPX", "NPS1", "")
		}, "0000:0c:00.0 (MI300X): no DRM device yet"},
		{"others are still probed", func(f *fixture) {
			f.write("sys/module/amdgpu/initstate", "coming\n")
		}, "0000:05:00.0 (MI300X): the driver is still loading"},
		{"a mode that is not settled", func(f *fixture) {
			f.write(pciFile(ready, computeFile), "UNKNOWN\n")
		}, `current_compute_partition holds "UNKNOWN"`},
		{"an accelerator that is not known yet", func(f *fixture) {
			f.function("0000:0c:00.0", "120000", "1002:7f00", "", "")
		}, "0000:0c:00.0 (0x1002:0x7f00): "},
		{"a topology that cannot be read", func(f *fixture) {
			f.must(os.MkdirAll(f.path("sys/class/kfd/kfd/topology/nodes/1/properties"), 0o755))
		}, "cannot read the GPUs: cannot read the KFD topology"},
		{"without partition files but up", func(f *fixture) {
			f.function("0000:0c:00.0", "120000", "1002:74a1", "amdgpu", "card2")
		}, ""},
		{"given to a virtual machine", func(f *fixture) {
			f.function("0000:0c:00.0", "120000", "1002:74a1", "vfio-pci", "")
		}, ""},
		{"a Radeon without a driver", func(f *fixture) {
			f.function("0000:0c:00.0", "030000", "1002:73bf", "", "")
		}, ""},
		{"a BMC without a driver", func(f *fixture) {
			f.function("0000:c3:00.0", "030000", "1a03:2000", "", "")
		}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t)
			f.mi300x(ready, "card1")
			test.make(f)
			ctx := patient(t)
			if test.want != "" {
				ctx = soon(t)
			}
			_, err := f.open().all.Wait(ctx)
			if test.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v, want it to wrap context.DeadlineExceeded", err)
			}
		})
	}
}

func TestWait_PermanentError(t *testing.T) {
	t.Run("no AMD GPU", func(t *testing.T) {
		f := newFixture(t)
		f.function("0000:c3:00.0", "030000", "1a03:2000", "ast", "card0")
		if _, err := f.open().all.Wait(patient(t)); !errors.Is(err, gpu.ErrNoGPU) {
			t.Errorf("error %v, want ErrNoGPU", err)
		}
	})
	t.Run("a mode that is not known", func(t *testing.T) {
		f := newFixture(t)
		f.mi300x("0000:05:00.0", "card1")
		f.write(pciFile("0000:05:00.0", computeFile), "HPX\n")
		_, err := f.open().all.Wait(patient(t))
		if mode, ok := errors.AsType[*ModeError](err); !ok || mode.Value != "HPX" {
			t.Errorf("error %v, want one of the mode HPX", err)
		}
	})
}

func TestWait_LastGPU(t *testing.T) {
	f := newFixture(t)
	f.mi300x("0000:05:00.0", "card1")
	f.mi300x("0000:0c:00.0", "")
	type result struct {
		devices []gpu.Device
		err     error
	}
	done := make(chan result)
	go func() {
		devices, err := f.open().all.Wait(patient(t))
		done <- result{devices, err}
	}()
	f.write(pciFile("0000:0c:00.0", "drm/card2/dev"), "226:2\n")
	if r := <-done; r.err != nil || len(gpu.Partitionable(r.devices)) != 2 {
		t.Errorf("%d devices, %v; want two GPUs", len(r.devices), r.err)
	}
}

// hang replaces an attribute by a FIFO without a writer, so that a read blocks as in a hanging
// driver.
func (f *fixture) hang(name string) {
	f.t.Helper()
	os.Remove(f.path(name))
	f.must(unix.Mkfifo(f.path(name), 0o644))
	f.t.Cleanup(func() { // unblock the thread that reads
		if fd, err := unix.Open(f.path(name), unix.O_RDWR|unix.O_NONBLOCK, 0); err == nil {
			unix.Close(fd)
		}
	})
}

func TestWait_HangingDriver(t *testing.T) {
	f := newFixture(t)
	f.mi300x("0000:05:00.0", "card1")
	f.hang(pciFile("0000:05:00.0", computeFile))
	n := f.open()
	for name, call := range map[string]func(context.Context) error{
		"Devices":    func(ctx context.Context) error { _, err := n.all.Devices(ctx); return err },
		"Wait":       func(ctx context.Context) error { _, err := n.all.Wait(ctx); return err },
		"SetCompute": func(ctx context.Context) error { return n.SetCompute(ctx, "0000:05:00.0", "CPX") },
	} {
		err := call(soon(t))
		if !errors.Is(err, context.DeadlineExceeded) || !gpu.IsTransient(err) {
			t.Errorf("%s: error %v, transient %v; want the deadline's, transient", name, err, IsTransient(err))
		}
	}
}

// The driver has finished its probe and rejected one GPU.
func TestWaitAfterLoad_GivesUp(t *testing.T) {
	f := newFixture(t)
	f.write("sys/module/amdgpu/initstate", "live\n")
	f.mi300x("0000:05:00.0", "card1")
	f.function("0000:0c:00.0", "120000", "1002:74a1", "", "")
	devices, err := f.open().with(gpu.ProbeTimeout(20 * time.Millisecond)).all.WaitAfterLoad(patient(t))
	late, ok := errors.AsType[*gpu.NotReadyError](err)
	if !ok || len(late.GPUs) != 1 || late.GPUs[0].GPU != "0000:0c:00.0" || errors.Is(err, context.DeadlineExceeded) || !gpu.IsTransient(err) {
		t.Errorf("error %v, want one of the second GPU alone", err)
	}
	if len(gpu.Partitionable(devices)) != 1 {
		t.Errorf("devices %+v, want the first GPU among them", devices)
	}
}

// While the module is missing or still initialising, Wait must not report a GPU as rejected.
func TestWaitAfterLoad_DriverComingUp(t *testing.T) {
	f := newFixture(t)
	f.write("sys/module/amdgpu/initstate", "coming\n")
	f.function("0000:0c:00.0", "120000", "1002:74a1", "", "")
	if _, err := f.open().with(gpu.ProbeTimeout(time.Millisecond)).all.WaitAfterLoad(soon(t)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want that of the deadline", err)
	}
}

// Reading all GPUs is too expensive to be repeated many times a second for a minute.
func TestWait_Events(t *testing.T) {
	f := newFixture(t)
	f.write("sys/module/amdgpu/initstate", "live\n")
	f.function("0000:0c:00.0", "120000", "1002:74a1", "", "")
	ready, listening := make(chan struct{}, 1), make(chan struct{})
	n := f.open().with(gpu.PollInterval(time.Hour), gpu.Events(func(context.Context, func(string, string) bool) <-chan struct{} {
		close(listening)
		return ready
	}))
	done := make(chan error)
	go func() {
		_, err := n.all.Wait(patient(t))
		done <- err
	}()
	<-listening
	f.modes("0000:0c:00.0", "SPX", "SPX, DPX, QPX, CPX", "NPS1", "NPS1, NPS4")
	f.write(pciFile("0000:0c:00.0", "drm/card1/dev"), "226:1\n")
	f.link(pciFile("0000:0c:00.0", "driver"), "../../../../bus/pci/drivers/amdgpu")
	ready <- struct{}{}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestHint_UnloadedDriver(t *testing.T) {
	f := newFixture(t)
	f.function("0000:0c:00.0", "120000", "1002:74a1", "", "")
	_, err := f.open().all.Wait(soon(t))
	if hint := gpu.Hint(err); !strings.Contains(hint, "modprobe amdgpu") {
		t.Errorf("hint %q of %v", hint, err)
	}
}
