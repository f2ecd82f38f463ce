package gpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/gpu/partition"
)

// fakeVendor has the parts of a vendor that these tests use.
type fakeVendor struct {
	id       partition.Vendor
	late     map[partition.Address]string
	notReady func() // called when a GPU is not ready; may be nil
	usage    VendorUsage
	loaded   bool
	fails    error
	made     []string
}

func (m *fakeVendor) vendor() Vendor {
	return Vendor{
		Traits: Traits{Vendor: m.id}, Inspector: m, Executor: m, UsageReader: m, Loader: m, Enrich: m.enrich,
		ModeFiles: func() []string { return []string{m.id.String()} },
	}
}

func (m *fakeVendor) Describe(functions []*Function) error {
	for _, f := range functions {
		f.Compute = "SPX"
	}
	return nil
}

func (m *fakeVendor) NotReady(f Function) (reason, hint string) {
	if m.notReady != nil && m.late[f.Address] != "" {
		m.notReady()
	}
	return m.late[f.Address], ""
}
func (m *fakeVendor) Progress([]partition.Address) (string, bool) { return "", m.loaded }
func (m *fakeVendor) Usage(context.Context) (VendorUsage, error)  { return m.usage, nil }
func (m *fakeVendor) UsageFingerprint() string                    { return "" }
func (m *fakeVendor) Loaded() bool                                { return m.loaded }
func (m *fakeVendor) Load(context.Context) error                  { m.loaded = true; return nil }
func (m *fakeVendor) Explain(error) (hint string, transient bool) {
	return "Ask " + m.id.String() + ".", true
}
func (m *fakeVendor) RelevantEvent(_, path string) bool { return path == "/module/"+m.id.String() }

func (m *fakeVendor) enrich(_ context.Context, devices []*Device) error {
	for _, d := range devices {
		d.Name = m.id.String()
	}
	return nil
}

func (m *fakeVendor) Execute(_ context.Context, steps []partition.Step, onStep StepFunc) error {
	for _, s := range steps {
		onStep(s, true, nil)
		m.made = append(m.made, s.String())
		onStep(s, false, m.fails)
	}
	return m.fails
}

const (
	other partition.Vendor  = 0x1234
	a, b  partition.Address = "0000:05:00.0", "0000:06:00.0"
	lit   partition.Address = "0000:03:00.0"
)

// fakePCI returns a root of sysfs with a display of no vendor at lit, a GPU of AMD at a, and
// one of another vendor at b.
func fakePCI(t *testing.T) string {
	t.Helper()
	sys := t.TempDir()
	for address, ids := range map[partition.Address]string{a: "0x120000 0x1002 0x74a1", b: "0x030200 0x1234 0x0001", lit: "0x030000 0x1a03 0x2000", "0000:01:00.0": "0x010802 0x144d 0xa824"} {
		for i, name := range []string{"class", "vendor", "device"} {
			file := AttributePath(sys, address, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(strings.Fields(ids)[i]+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return sys
}

func twoVendors(t *testing.T) (*Node, *fakeVendor, *fakeVendor) {
	t.Helper()
	amd, second := &fakeVendor{id: partition.AMD}, &fakeVendor{id: other}
	return Open(fakePCI(t), []Vendor{second.vendor(), amd.vendor()}, PollInterval(time.Millisecond)), amd, second
}

func TestDevices_AreInPCIOrder(t *testing.T) {
	n, _, _ := twoVendors(t)
	devices, err := n.Devices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Enrich(t.Context(), devices); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range devices {
		got = append(got, fmt.Sprintf("%s %q %q", d.Address, d.Name, d.SkipReason))
	}
	want := []string{`0000:03:00.0 "" "not an 0x1234 or AMD GPU"`, `0000:05:00.0 "AMD" ""`, `0000:06:00.0 "0x1234" ""`}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("devices (-want +got):\n%s", d)
	}
}

// expiring is a context whose deadline passes when done is closed.
type expiring struct {
	context.Context
	done chan struct{}
}

func (e *expiring) Done() <-chan struct{} { return e.done }

func (e *expiring) Err() error {
	select {
	case <-e.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func TestWait_EveryVendor(t *testing.T) {
	n, _, second := twoVendors(t)
	ctx := &expiring{Context: t.Context(), done: make(chan struct{})}
	second.late, second.notReady = map[partition.Address]string{b: "it sleeps"}, sync.OnceFunc(func() { close(ctx.done) })
	if _, err := n.Wait(ctx); err == nil || !strings.Contains(err.Error(), "0000:06:00.0 (0x1234:0x0001): it sleeps") || !IsTransient(err) || Hint(err) == "" {
		t.Errorf("error %v, transient %t, hint %q", err, IsTransient(err), Hint(err))
	}
}

func TestWait_NoGPU(t *testing.T) {
	n := Open(fakePCI(t), []Vendor{(&fakeVendor{id: 0x5678}).vendor()})
	_, err := n.Wait(t.Context())
	if !errors.Is(err, ErrNoGPU) || err.Error() != "no 0x5678 GPU on the PCI bus" || Hint(err) == "" || IsTransient(err) {
		t.Errorf("error %v, hint %q", err, Hint(err))
	}
}

func TestHint_FromVendor(t *testing.T) {
	n, amd, _ := twoVendors(t)
	amd.fails = errors.New("broken")
	err := n.Execute(t.Context(), partition.Steps{{Kind: partition.SwitchCompute, GPU: a, To: "CPX"}}, func(partition.Step, bool, error) {})
	if err == nil || !errors.Is(err, amd.fails) || Hint(err) != "Ask AMD." || !IsTransient(err) {
		t.Errorf("error %v, hint %q, transient %t", err, Hint(err), IsTransient(err))
	}
}

func TestWaitAfterLoad_GivesUp(t *testing.T) {
	n, amd, second := twoVendors(t)
	ProbeTimeout(5 * time.Millisecond)(n)
	amd.late, amd.loaded = map[partition.Address]string{a: "it sleeps"}, true
	devices, err := n.WaitAfterLoad(t.Context())
	if !errors.Is(err, errNoMoreGPUs) || len(devices) != 3 || !IsTransient(err) {
		t.Errorf("error %v with %d devices", err, len(devices))
	}
	second.late = map[partition.Address]string{b: "its driver is coming up"}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := n.WaitAfterLoad(ctx); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errNoMoreGPUs) {
		t.Errorf("error %v, want to have waited for the other driver", err)
	}
}

func TestLoad_OnlyDriversOfPresentGPUs(t *testing.T) {
	amd, absent := &fakeVendor{id: partition.AMD}, &fakeVendor{id: 0x5678}
	n := Open(fakePCI(t), []Vendor{amd.vendor(), absent.vendor()})
	if n.Drivers().Loaded() {
		t.Error("loaded")
	}
	if err := n.Drivers().Load(t.Context()); err != nil || !n.Drivers().Loaded() || absent.loaded {
		t.Errorf("error %v, loaded %t, the absent one %t", err, n.Drivers().Loaded(), absent.loaded)
	}
}

func TestUsage_TwoVendors(t *testing.T) {
	n, amd, second := twoVendors(t)
	amd.usage = VendorUsage{Holders: []Holder{{PID: 7, Devices: []string{"/dev/kfd"}}}, DriverUse: DriverUse{Counted: true, Count: 2, Accounted: 1}}
	second.usage = VendorUsage{Holders: []Holder{{PID: 7, Devices: []string{"/dev/x0"}}, {PID: 3, Devices: []string{"/dev/x1"}}}, DriverUse: DriverUse{Counted: true, Count: 1, Accounted: 2}}
	u, err := n.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []Holder{
		{PID: 3, Devices: []string{"/dev/x1"}, Vendors: []partition.Vendor{other}},
		{PID: 7, Devices: []string{"/dev/x0", "/dev/kfd"}, Vendors: []partition.Vendor{other, partition.AMD}},
	}
	if d := cmp.Diff(want, u.Holders); d != "" {
		t.Errorf("holders (-want +got):\n%s", d)
	}
	Leases(nil)(n)
	if _, err := n.Usage(t.Context()); err != nil {
		t.Error(err)
	}
	n.bus.sys = t.TempDir() // where a scan of the bus finds no GPU
	of, err := n.UsageOf(t.Context(), func(v partition.Vendor) bool { return v == other })
	if err != nil || len(of.Holders) != 2 || of.Holders[1].Vendors[0] != other || len(of.Holders[1].Devices) != 1 {
		t.Errorf("of one vendor: %+v, %v", of, err)
	}
	if own := u.ForVendor(other); own.Unexplained() != 0 || len(own.Holders) != 2 || u.ForVendor(partition.AMD).Unexplained() != 1 || len(u.ForVendor(partition.AMD).Holders) != 1 {
		t.Errorf("usage %+v and %+v, want the counters of each driver", own, u.ForVendor(partition.AMD))
	}
	devices := []Device{{GPU: partition.GPU{Address: a}, ExclusiveNodes: []string{"/dev/kfd"}}, {GPU: partition.GPU{Address: b}, ExclusiveNodes: []string{"/dev/x1"}}}
	for _, test := range []struct {
		name string
		step partition.Step
		want []Holder
	}{
		{"a switch of one GPU", partition.Step{Kind: partition.SwitchCompute, GPU: b}, u.Holders[:1]},
		{"a reload, which is of one vendor's driver", partition.Step{Kind: partition.ReloadDriver}, u.Holders[1:]},
	} {
		if d := cmp.Diff(test.want, Blockers(partition.Steps{test.step}, devices, u.Holders)); d != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, d)
		}
	}
}

func TestRelevantEvent_AnyVendor(t *testing.T) {
	n, _, _ := twoVendors(t)
	for path, want := range map[string]bool{"/module/AMD": true, "/module/0x1234": true, "/module/x": false} {
		if got := n.Watch().RelevantEvent("module", path); got != want {
			t.Errorf("%s: %t", path, got)
		}
	}
	if d := cmp.Diff([]string{"0x1234", "AMD"}, n.Watch().ModeFiles()); d != "" || !n.Watch().RelevantEvent("pci", "") {
		t.Errorf("mode files (-want +got):\n%s", d)
	}
}

// removeGPU removes the GPU of the other vendor from the bus.
func removeGPU(t *testing.T, n *Node) {
	t.Helper()
	if err := os.RemoveAll(filepath.Dir(AttributePath(n.bus.sys, b, "class"))); err != nil {
		t.Fatal(err)
	}
}

// Before the first scan, present reads the bus at each call; afterwards it uses the result of
// the scan.
func TestPresent_FromLastScan(t *testing.T) {
	n, _, _ := twoVendors(t)
	fresh := Open(n.bus.sys, n.bus.vendors)
	look := func() {
		if _, err := n.Devices(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	there := func(n *Node, want int) {
		t.Helper()
		if there, err := n.bus.present(); err != nil || len(there) != want {
			t.Errorf("%d vendors, %v, want %d", len(there), err, want)
		}
	}
	look()
	there(n, 2)
	there(fresh, 2)
	removeGPU(t, n)
	there(n, 2)
	there(fresh, 1)
	look()
	there(n, 1)
}
