package vm_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
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

// TestVM runs dcm on a real kernel. DCM_VM names the guests, separated by commas. DCM_VM_ALL=1 adds the long
// scenarios.
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
	for name := range strings.SplitSeq(names, ",") {
		guest, ok := vm.Guests()[name]
		if !ok {
			t.Fatalf("DCM_VM names %q, which is no guest", name)
		}
		t.Run(name, func(t *testing.T) {
			disk := openDisk(t, guest, p)
			for other, rows := range special() {
				if other != name {
					skip(t, rows, fmt.Sprintf("runs on the guest %s only", other))
				}
			}
			rows, ok := special()[name]
			switch {
			case ok:
			case os.Getenv("DCM_VM_ALL") != "":
				rows = append(longScenarios(), scenarios()...)
			default:
				rows = scenarios()
				skip(t, longScenarios(), "takes long and runs with DCM_VM_ALL=1, which make test-vm ALL=1 sets")
			}
			run(t, disk, rows)
		})
	}
}

func skip(t *testing.T, rows []scenario, reason string) {
	for _, tt := range rows {
		t.Run(tt.name, func(t *testing.T) { t.Skip(reason) })
	}
}

// run starts the scenarios in their order, as many at a time as there are machines. Parallel subtests would
// start in any order.
func run(t *testing.T, disk *vm.Disk, rows []scenario) {
	next := make(chan scenario)
	var workers sync.WaitGroup
	for range machines {
		workers.Go(func() {
			for tt := range next {
				t.Run(tt.name, func(t *testing.T) {
					began := time.Now()
					tt.run(restore(t, disk, tt.options))
					t.Logf("%s: %.1f s", tt.name, time.Since(began).Seconds())
				})
			}
		})
	}
	for _, tt := range rows {
		next <- tt
	}
	close(next)
	workers.Wait()
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

// machine is a virtual machine in a test. Its errors fail the test.
type machine struct {
	*vm.Machine
	t *testing.T
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
	m := machine{v, t}
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
