package lease

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/gpu/partition"
	"dcm/internal/leases/placement"
)

func wants(text string) []Reservation {
	var out []Reservation
	for f := range strings.FieldsSeq(text) {
		name, n, _ := strings.Cut(f, "=")
		out = append(out, Reservation{Name: name, Want: placement.Want{Partitions: len(n)}})
	}
	return out
}

func TestReserve(t *testing.T) {
	for _, tt := range []struct {
		name, wants string
		now         map[string][]string
		want        map[string]string
		err         string
	}{
		{"none", "", nil, map[string]string{}, ""},
		{"two", "a=xx b=x", nil, map[string]string{"a": "/dev/dri/renderD128 /dev/dri/renderD129", "b": "/dev/dri/renderD130"}, ""},
		{"its present partitions", "a=xx b=x", map[string][]string{"b": {"/dev/dri/renderD129"}, "gone": {"/dev/dri/renderD128"}},
			map[string]string{"a": "/dev/dri/renderD130 /dev/dri/renderD131", "b": "/dev/dri/renderD129"}, ""},
		{"a node that no longer exists", "a=x", map[string][]string{"a": {"/dev/dri/renderD190"}}, map[string]string{"a": "/dev/dri/renderD128"}, ""},
		{"not enough for all", "a=xxxxxx b=xxx c=xx", nil,
			map[string]string{"a": "/dev/dri/renderD128 /dev/dri/renderD129 /dev/dri/renderD130 /dev/dri/renderD131 /dev/dri/renderD136 /dev/dri/renderD137", "b": "", "c": "/dev/dri/renderD138 /dev/dri/renderD139"},
			"11 partitions reserved (a 6, b 3, c 2), and there are 8"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Reserve(parts(), wants(tt.wants), tt.now, nil)
			if text := message(err); text != tt.err {
				t.Errorf("error: got %q, want %q", text, tt.err)
			}
			nodes := make(map[string]string)
			for name, g := range got {
				nodes[name] = strings.Join(g.Nodes, " ")
				if g.Reason == "" || len(g.Nodes) != len(g.Partitions) {
					t.Errorf("grant of %s: got %+v", name, g)
				}
			}
			if diff := cmp.Diff(tt.want, nodes); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
		})
	}
}

// Whole reservations have all free partitions of their GPUs, and can have the same ones.
func TestReserve_Whole(t *testing.T) {
	gpu := func(i int) placement.Want { return placement.Want{Among: []partition.Address{parts()[i].GPU}} }
	list := []Reservation{
		{Name: "a", Want: gpu(0), Whole: true}, {Name: "b", Want: gpu(0), Whole: true},
		{Name: "c", Want: placement.Want{Partitions: 1}},
	}
	got, err := Reserve(parts(), list, nil, []string{parts()[0].Render})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		if g := got[name]; len(g.Nodes) != 3 || g.Nodes[0] != parts()[1].Render {
			t.Errorf("%s has %q, want the three partitions of the GPU without a lease", name, g.Nodes)
		}
	}
	if g := got["c"]; len(g.Nodes) != 1 || slices.Contains(got["a"].Nodes, g.Nodes[0]) {
		t.Errorf("c has %q, want one of another GPU", g.Nodes)
	}
	none := []Reservation{{Name: "d", Want: placement.Want{Among: []partition.Address{"0000:ff:00.0"}}, Whole: true}}
	if _, err := Reserve(parts(), none, nil, nil); message(err) != "reservation d: its GPUs have no free partition" {
		t.Errorf("a missing GPU: %v", err)
	}
	if err := Fit(parts(), none); err == nil {
		t.Error("a missing GPU fits")
	}
}

// A unit that continues keeps its partitions in their order, even if another reservation is not met.
func TestReserve_Kept(t *testing.T) {
	now := map[string][]string{"a": {"/dev/dri/renderD131", "/dev/dri/renderD129"}}
	list := []Reservation{
		{Name: "b", Want: placement.Want{Partitions: len(parts())}},
		{Name: "a", Want: placement.Want{Partitions: 2}, Kept: true},
	}
	got, err := Reserve(parts(), list, now, nil)
	if diff := cmp.Diff(now["a"], got["a"].Nodes); diff != "" || err == nil {
		t.Errorf("error %v, nodes (-want +got):\n%s", err, diff)
	}
	list[1].Kept = false
	if got, _ := Reserve(parts(), list, now, nil); len(got["a"].Nodes) != 0 && len(got["b"].Nodes) != 0 {
		t.Errorf("both are met: %+v", got)
	}
}

// A Whole reservation does not get a partition of a unit that continues, in whatever order they are.
func TestReserve_WholeAndKept(t *testing.T) {
	kept := Reservation{Name: "kept", Want: placement.Want{Partitions: 1}, Kept: true}
	whole := Reservation{Name: "whole", Want: placement.Want{Among: []partition.Address{parts()[0].GPU}}, Whole: true}
	now := map[string][]string{"kept": {parts()[0].Render}}
	for _, list := range [][]Reservation{{kept, whole}, {whole, kept}} {
		got, err := Reserve(parts(), list, now, nil)
		if err != nil || len(got["whole"].Nodes) != 3 || slices.Contains(got["whole"].Nodes, parts()[0].Render) {
			t.Errorf("%s first: %v, %+v", list[0].Name, err, got)
		}
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestLinks(t *testing.T) {
	l := Links{filepath.Join(t.TempDir(), "dcm")}
	if got, err := l.Read(); got == nil || len(got) > 0 || err != nil {
		t.Errorf("without links: got %#v, %v, want a map that can be written to", got, err)
	}
	for _, want := range []map[string][]string{
		{"a": {"/dev/dri/renderD128", "/dev/dri/renderD129"}, "b": {"/dev/dri/renderD130"}},
		{"a": {"/dev/dri/renderD131"}, "c": {}},
		{"a": {"/dev/dri/renderD131", "/dev/dri/renderD132", "/dev/dri/renderD133"}},
	} {
		if err := l.Write(want); err != nil {
			t.Fatal(err)
		}
		got, err := l.Read()
		for name, nodes := range got {
			if nodes == nil {
				got[name] = []string{}
			}
		}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
	// Write removes the remains of a writer that was killed.
	rest := filepath.Join(l.Dir, "a", ".new")
	if err := os.Symlink("/dev/null", rest); err != nil {
		t.Fatal(err)
	}
	if err := l.Write(map[string][]string{"a": {"/dev/dri/renderD131", "/dev/dri/renderD132", "/dev/dri/renderD133"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(rest); err == nil {
		t.Error("the temporary link of a killed writer still exists")
	}
	if err := l.Write(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(l.Dir); !os.IsNotExist(err) {
		t.Errorf("the directory still exists: %v", err)
	}
}

func TestFit(t *testing.T) {
	node := parts()
	if err := Fit(node, wants("a=xxxx b=xxxx")); err != nil {
		t.Error(err)
	}
	if err := Fit(node[:4], wants("a=xxx b=xx")); message(err) != "5 partitions reserved (a 3, b 2), and there are 4" {
		t.Error(err)
	}
}

// A partition whose cleaning failed is reserved last. A reservation that has one keeps it.
func TestReserve_FailedCleaningLast(t *testing.T) {
	all := parts()
	for _, tt := range []struct {
		name   string
		wants  string
		now    map[string][]string
		failed []int // partitions
		want   string
	}{
		{"another one", "a=x", nil, []int{0}, all[1].Name},
		{"as few as possible", "a=xxxxxxx", nil, []int{0, 1}, all[0].Name},
		{"its present one", "a=x", map[string][]string{"a": {all[0].Render}}, []int{0}, all[0].Name},
	} {
		c := Cleaning{Failed: make(map[string]bool)}
		for _, i := range tt.failed {
			c.Failed[all[i].Name] = true
		}
		got, err := c.Reserve(all, wants(tt.wants), tt.now, nil)
		if err != nil || got["a"].Partitions[0] != tt.want {
			t.Errorf("%s: got %v, %v; want %s first", tt.name, got["a"].Partitions, err, tt.want)
		}
		if slices.Contains(got["a"].Partitions, all[tt.failed[len(tt.failed)-1]].Name) && len(tt.failed) > 1 {
			t.Errorf("%s: got all partitions whose cleaning failed: %v", tt.name, got["a"].Partitions)
		}
	}
}
