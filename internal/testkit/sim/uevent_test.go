package sim

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The order is that of Debian's 6.12 with amdgpu and drm as modules.
func TestUevent_Reload(t *testing.T) {
	k, err := LookupKind("mi210-2")
	if err != nil {
		t.Fatal(err)
	}
	first, second := "/"+pciPath(k.Boards[0].Address), "/"+pciPath(k.Boards[1].Address)
	tests := map[string]struct {
		do   func(n *Node) error
		want []Uevent
	}{
		"unload": {func(n *Node) error { return n.Unload(t.Context()) }, []Uevent{
			{"remove", first + "/drm/renderD128", "drm"},
			{"remove", first + "/drm/card0", "drm"},
			{"unbind", first, "pci"},
			{"remove", second + "/drm/renderD129", "drm"},
			{"remove", second + "/drm/card1", "drm"},
			{"unbind", second, "pci"},
			{"remove", "/bus/pci/drivers/amdgpu", "drivers"},
			{"remove", "/module/amdgpu", "module"},
			{"remove", "/module/drm", "module"},
		}},
		"load": {func(n *Node) error { return n.Load(t.Context(), Parameters{}) }, []Uevent{
			{"add", first + "/drm/renderD128", "drm"},
			{"add", first + "/drm/card0", "drm"},
			{"bind", first, "pci"},
			{"add", second + "/drm/renderD129", "drm"},
			{"add", second + "/drm/card1", "drm"},
			{"bind", second, "pci"},
			{"add", "/bus/pci/drivers/amdgpu", "drivers"},
			{"add", "/module/amdgpu", "module"},
		}},
	}
	var seen []Uevent
	n := New(k, Options{Uevent: func(u Uevent) { seen = append(seen, u) }})
	for _, name := range []string{"unload", "load"} {
		tt := tests[name]
		seen = nil
		if err := tt.do(n); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, seen); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A GPU is unbound before it leaves the bus. If it is added again, it is probed if its driver is loaded.
func TestUevent_HotPlug(t *testing.T) {
	k, err := LookupKind("mi210-2")
	if err != nil {
		t.Fatal(err)
	}
	a := k.Boards[1].Address
	path := "/" + pciPath(a)
	for name, loaded := range map[string]bool{"driver loaded": true, "driver not loaded": false} {
		var seen []Uevent
		n := New(k, Options{Uevent: func(u Uevent) { seen = append(seen, u) }})
		if err := n.Inject(Fault{Op: OpNow, GPU: a, Vanish: true}); err != nil {
			t.Fatal(err)
		}
		removed := []Uevent{{"remove", path + "/drm/renderD129", "drm"}, {"remove", path + "/drm/card1", "drm"}, {"unbind", path, "pci"}, {"remove", path, "pci"}}
		if diff := cmp.Diff(removed, seen); diff != "" {
			t.Errorf("removal (-want +got):\n%s", diff)
		}
		if err := n.Inject(Fault{Op: OpNow, GPU: a, Vanish: true}); err != nil || len(seen) != len(removed) {
			t.Errorf("second removal: %v, %v", err, seen)
		}
		if !loaded {
			if err := n.Unload(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		seen = nil
		if err := n.Inject(Fault{Op: OpNow, GPU: a, Appear: true}); err != nil {
			t.Fatal(err)
		}
		want := []Uevent{{"add", path, "pci"}}
		if loaded {
			want = append(want, Uevent{"add", path + "/drm/renderD129", "drm"}, Uevent{"add", path + "/drm/card1", "drm"}, Uevent{"bind", path, "pci"})
		}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if g := n.State().GPUs[1]; g.Vanished || g.Bound != loaded {
			t.Errorf("%s: %+v", name, g)
		}
	}
}

// modprobe -r amdgpu unloads drm unless another driver uses it.
func TestUevent_DRMModule(t *testing.T) {
	for kind, want := range map[string]bool{"mi300x-8": false, "mi300x-8-bmc": true, "mi300x-4+h100-4": true} {
		k, err := LookupKind(kind)
		if err != nil {
			t.Fatal(err)
		}
		n := New(k, Options{})
		if _, ok := n.Lookup("sys/class/drm"); !ok {
			t.Errorf("%s: no class drm with the driver loaded", kind)
		}
		if err := n.Unload(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, ok := n.Lookup("sys/class/drm"); ok != want {
			t.Errorf("%s: class drm with the driver unloaded: %t, want %t", kind, ok, want)
		}
	}
}

func TestUevent_Minors(t *testing.T) {
	k, err := LookupKind("mi300x-8")
	if err != nil {
		t.Fatal(err)
	}
	n := New(k, Options{Scattered: true})
	for _, tt := range []struct{ board, partition, want int }{{7, 0, 128}, {0, 0, 135}, {7, 1, 136}, {0, 7, 191}} {
		if got := n.boards[tt.board].renderMinor(tt.partition); got != tt.want {
			t.Errorf("GPU %d, partition %d: render minor %d, want %d", tt.board, tt.partition, got, tt.want)
		}
	}
}
