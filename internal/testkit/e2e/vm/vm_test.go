package vm_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"dcm/internal/testkit/e2e/remote"
	"dcm/internal/testkit/e2e/vm"
	"dcm/internal/testkit/e2e/vm/testnode"
	"dcm/internal/testkit/testdeadline"
)

// waitLimit limits one command or boot in a guest. On a busy host the limit is higher, see package
// testdeadline. Only a failing test reaches it.
const waitLimit = 2 * time.Minute

// machines is the number of concurrent machines, for `make test-vm` on two processors.
const machines = 2

// TestVM runs dcm on a real kernel. DCM_VM names the guests, separated by commas.
func TestVM(t *testing.T) {
	names := os.Getenv("DCM_VM")
	if names == "" {
		t.Skip("virtual machines run with DCM_VM=trixie, which make test-vm sets")
	}
	if err := vm.Missing(); err != nil {
		t.Fatal(err)
	}
	p, err := testnode.Product(t.Context(), "../../../..", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	turns := make(chan struct{}, machines)
	for name := range strings.SplitSeq(names, ",") {
		guest, ok := vm.Guests()[name]
		if !ok {
			t.Fatalf("DCM_VM names %q, which is no guest", name)
		}
		t.Run(name, func(t *testing.T) {
			disk := openDisk(t, guest, p)
			rows, ok := special()[name]
			if !ok {
				rows = scenarios()
			}
			for other, elsewhere := range special() {
				for _, tt := range elsewhere {
					if other != name {
						t.Run(tt.name, func(t *testing.T) { t.Skipf("runs on the guest %s only", other) })
					}
				}
			}
			for _, tt := range rows {
				t.Run(tt.name, func(t *testing.T) {
					t.Parallel()
					turns <- struct{}{}
					defer func() { <-turns }()
					began := time.Now()
					tt.run(restore(t, disk, tt.options))
					t.Logf("%s: %.1f s", tt.name, time.Since(began).Seconds())
				})
			}
		})
	}
}

type scenario struct {
	name    string
	options vm.Options
	run     func(machine)
}

func openDisk(t *testing.T, g vm.Guest, p vm.Product) *vm.Disk {
	t.Helper()
	ctx, cancel := testdeadline.Context(t.Context(), 30*time.Minute) // the first run may build a kernel
	defer cancel()
	disk, err := vm.OpenDisk(ctx, g, p, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := disk.Close(); err != nil {
			t.Error(err)
		}
	})
	return disk
}

// images are the booted machines of a guest, by their options.
type images struct{ disk *vm.Disk }

// machine is a virtual machine in a test. Its errors fail the test.
type machine struct {
	*vm.Machine
	t      *testing.T
	images images
}

// restore returns a machine that has just booted.
func restore(t *testing.T, disk *vm.Disk, o vm.Options) machine {
	t.Helper()
	ctx, cancel := testdeadline.Context(t.Context(), 2*waitLimit)
	defer cancel()
	image, err := disk.Image(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	v, err := image.Restore()
	if err != nil {
		t.Fatal(err)
	}
	return watched(t, v, images{disk})
}

func watched(t *testing.T, v *vm.Machine, i images) machine {
	m := machine{v, t, i}
	t.Cleanup(func() {
		if t.Failed() {
			ctx, cancel := testdeadline.Context(context.Background(), waitLimit)
			defer cancel()
			r, err := v.Run(ctx, "sh", "-c", "dcm status; dcm holders; systemctl --failed; journalctl -b -o short-monotonic -n 200")
			t.Logf("%v\n%s%s\n%s", err, r.Stdout, r.Stderr, v.Console())
		}
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// try runs a shell command. Any exit status is accepted.
func (m machine) try(script string, args ...string) remote.Result {
	m.t.Helper()
	ctx, cancel := testdeadline.Context(m.t.Context(), waitLimit)
	defer cancel()
	r, err := m.Run(ctx, append([]string{"sh", "-c", script, "sh"}, args...)...)
	if err != nil {
		m.t.Fatalf("%v\n%s%s", err, r.Stdout, r.Stderr)
	}
	return r
}

// run runs a shell command that must succeed and returns its trimmed output.
func (m machine) run(script string, args ...string) string {
	m.t.Helper()
	r := m.try(script, args...)
	if r.Code != 0 {
		m.t.Fatalf("%s %q: exit status %d\n%s%s", script, args, r.Code, r.Stdout, r.Stderr)
	}
	return strings.TrimSpace(r.Stdout)
}

func (m machine) expect(script, want string) {
	m.t.Helper()
	if got := m.run(script); got != want {
		m.t.Errorf("%s: found %q, want %q", script, got, want)
	}
}

func (m machine) must(f func(context.Context) error) {
	m.t.Helper()
	ctx, cancel := testdeadline.Context(m.t.Context(), waitLimit)
	defer cancel()
	if err := f(ctx); err != nil {
		m.t.Fatal(err)
	}
}
