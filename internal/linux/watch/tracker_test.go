package watch

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/testkit/testdeadline"
)

// tree is a directory under test, and a tracker whose events the test passes on.
type tree struct {
	*testing.T
	dir     string
	tracker *tracker
	marks   int
}

func newTree(t *testing.T, setup [][]string, wanted ...string) *tree {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f := &tree{T: t, dir: dir}
	f.do([]string{"mkdir", "mark"})
	for _, op := range setup {
		f.do(op)
	}
	all := []string{f.path("mark")}
	for _, w := range wanted {
		all = append(all, f.path(w))
	}
	if f.tracker, err = newTracker(all, slog.New(slog.NewTextHandler(t.Output(), nil))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.tracker.watcher.Close() })
	return f
}

func (f *tree) path(rel string) string {
	if filepath.IsAbs(rel) {
		return rel
	}
	return filepath.Join(f.dir, rel)
}

// do executes one operation of a table.
func (f *tree) do(op []string) {
	f.Helper()
	var err error
	switch path := f.path(op[1]); op[0] {
	case "mkdir":
		err = os.MkdirAll(path, 0o755)
	case "write":
		err = os.WriteFile(path, []byte(op[0]), 0o644)
	case "read":
		_, err = os.ReadFile(path)
	case "chmod":
		err = os.Chmod(path, 0o700)
	case "remove":
		err = os.RemoveAll(path)
	case "move":
		err = os.Rename(path, f.path(op[2]))
	case "link": // its target as given
		err = os.Symlink(op[2], path)
	case "swap": // replaces a link atomically, as kubelet does
		if err = os.Symlink(op[2], path+".tmp"); err == nil {
			err = os.Rename(path+".tmp", path)
		}
	default:
		f.Fatalf("unknown operation %q", op)
	}
	if err != nil {
		f.Fatal(err)
	}
}

// changed passes the tracker all events until a mark, and reports whether one was a change.
func (f *tree) changed() bool {
	f.Helper()
	f.marks++
	mark := f.path(fmt.Sprintf("mark/%d", f.marks))
	f.do([]string{"mkdir", mark})
	changed := false
	for late := testdeadline.After(10 * time.Second); ; {
		select {
		case ev := <-f.tracker.watcher.Events:
			if ev.Name == mark {
				return changed
			}
			changed = f.tracker.event(ev) || changed
		case err := <-f.tracker.watcher.Errors:
			f.Fatal(err)
		case <-late:
			f.Fatal("the mark never came")
		}
	}
}

func TestTracker(t *testing.T) {
	const yes, no = "change", "no change"
	kubernetes := [][]string{
		{"mkdir", "d/..1"}, {"write", "d/..1/a.toml"},
		{"link", "d/..data", "..1"}, {"link", "d/a.toml", "..data/a.toml"},
	}
	for _, tt := range []struct {
		name   string
		setup  [][]string
		wanted []string
		steps  [][]string // an operation each, or a verdict on those since the last one
	}{
		{"a file is written", [][]string{{"mkdir", "d"}}, []string{"d"},
			[][]string{{"write", "d/a"}, {yes}, {"write", "d/a"}, {yes}, {"remove", "d/a"}, {yes}}},
		{"an editor renames over", [][]string{{"mkdir", "d"}, {"write", "d/a"}}, []string{"d"},
			[][]string{{"write", "d/.a.swp"}, {yes}, {"move", "d/.a.swp", "d/a"}, {yes}}},
		{"permissions", [][]string{{"mkdir", "d"}, {"write", "d/a"}}, []string{"d"},
			[][]string{{"chmod", "d/a"}, {yes}, {"chmod", "d"}, {yes}}},
		{"reading is no change", [][]string{{"mkdir", "d"}, {"write", "d/a"}}, []string{"d"},
			[][]string{{"read", "d/a"}, {no}}},
		{"neighbours are no change", [][]string{{"mkdir", "p/d"}}, []string{"p/d"},
			[][]string{{"write", "p/report.json"}, {"mkdir", "p/e"}, {"move", "p/e", "p/f"}, {"chmod", "p"}, {no}}},
		{"neighbours of a missing directory are no change", [][]string{{"mkdir", "p"}}, []string{"p/d"},
			[][]string{{"write", "p/report.json"}, {"move", "p/report.json", "p/x"}, {no}}},
		{"a directory appears", [][]string{{"mkdir", "p"}}, []string{"p/d"},
			[][]string{{"mkdir", "p/d"}, {yes}, {"write", "p/d/a"}, {yes}}},
		{"a directory appears three levels deep", nil, []string{"p/q/d"},
			[][]string{{"mkdir", "p"}, {no}, {"mkdir", "p/q"}, {no}, {"write", "p/q/x"}, {no}, {"mkdir", "p/q/d"}, {yes}, {"write", "p/q/d/a"}, {yes}}},
		{"a tree appears by a rename", [][]string{{"mkdir", "x/q/d"}}, []string{"p/q/d"},
			[][]string{{"move", "x", "p"}, {yes}, {"write", "p/q/d/a"}, {yes}}},
		{"a directory is removed and created again", [][]string{{"mkdir", "p/d"}}, []string{"p/d"},
			[][]string{{"remove", "p/d"}, {yes}, {"mkdir", "p/d"}, {yes}, {"write", "p/d/a"}, {yes}}},
		{"removed and created between reads", [][]string{{"mkdir", "p/d"}}, []string{"p/d"},
			[][]string{{"remove", "p/d"}, {"mkdir", "p/d"}, {yes}, {"write", "p/d/a"}, {yes}}},
		{"removed with its parent and created again", [][]string{{"mkdir", "p/d"}}, []string{"p/d"},
			[][]string{{"remove", "p"}, {yes}, {"mkdir", "p"}, {no}, {"mkdir", "p/d"}, {yes}, {"write", "p/d/a"}, {yes}}},
		{"replaced by rename", [][]string{{"mkdir", "p/d"}, {"mkdir", "p/new"}}, []string{"p/d"},
			[][]string{{"move", "p/d", "p/old"}, {"move", "p/new", "p/d"}, {yes}, {"write", "p/old/a"}, {no}, {"write", "p/d/a"}, {yes}}},
		{"renamed away and back", [][]string{{"mkdir", "p/d"}}, []string{"p/d"},
			[][]string{{"move", "p/d", "p/x"}, {"move", "p/x", "p/d"}, {"write", "p/d/a"}, {yes}, {"write", "p/d/a"}, {yes}}},
		{"its parent is renamed away", [][]string{{"mkdir", "p/d"}}, []string{"p/d"},
			[][]string{{"move", "p", "x"}, {yes}, {"write", "x/d/a"}, {no}, {"mkdir", "p/d"}, {yes}, {"write", "p/d/a"}, {yes}}},
		{"two directories are exchanged", [][]string{{"mkdir", "p/c"}, {"mkdir", "p/d"}}, []string{"p/c", "p/d"},
			[][]string{{"move", "p/c", "p/x"}, {"move", "p/d", "p/c"}, {"move", "p/x", "p/d"}, {yes}, {"write", "p/c/a"}, {yes}, {"write", "p/d/a"}, {yes}}},
		{"..data is swapped", kubernetes, []string{"d"},
			[][]string{{"mkdir", "d/..2"}, {"write", "d/..2/a.toml"}, {"swap", "d/..data", "..2"}, {yes},
				{"remove", "d/..1"}, {yes}, {"write", "d/..2/a.toml"}, {yes}}},
		{"a directory below ..data", [][]string{{"mkdir", "v/..1/d"}, {"mkdir", "v/..2/d"}, {"link", "v/..data", "..1"}, {"link", "d", "v/..data/d"}}, []string{"d"},
			[][]string{{"write", "v/..1/d/a"}, {yes}, {"write", "v/..2/d/a"}, {no}, {"swap", "v/..data", "..2"}, {yes}, {"write", "v/..2/d/a"}, {yes}, {"write", "v/..1/d/a"}, {no}}},
		{"a link is removed and comes back", [][]string{{"mkdir", "r"}, {"mkdir", "p"}, {"link", "p/d", "../r"}}, []string{"p/d"},
			[][]string{{"remove", "p/d"}, {yes}, {"write", "r/a"}, {no}, {"link", "p/d", "../r"}, {yes}, {"write", "r/a"}, {yes}}},
		{"a link's target appears", [][]string{{"link", "d", "r/s"}}, []string{"d"},
			[][]string{{"mkdir", "r"}, {no}, {"mkdir", "r/s"}, {yes}, {"write", "r/s/a"}, {yes}}},
		{"a link's target is replaced", [][]string{{"mkdir", "r"}, {"mkdir", "r2"}, {"link", "d", "r"}}, []string{"d"},
			[][]string{{"move", "r", "x"}, {"move", "r2", "r"}, {yes}, {"write", "r/a"}, {yes}}},
		{"a loop of links", [][]string{{"link", "d", "e"}, {"link", "e", "d"}}, []string{"d"},
			[][]string{{"write", "x"}, {no}, {"remove", "d"}, {"mkdir", "d"}, {yes}}},
		{"a linked file is edited in place", [][]string{{"mkdir", "d"}, {"write", "x"}, {"link", "d/a", "../x"}}, []string{"d"},
			[][]string{{"write", "x"}, {yes}, {"write", "y"}, {no}}},
		{"a linked file is replaced", [][]string{{"mkdir", "d"}, {"write", "x"}, {"write", "y"}, {"link", "d/a", "../x"}}, []string{"d"},
			[][]string{{"move", "y", "x"}, {yes}, {"write", "x"}, {yes}}},
		{"a dangling link gets its file", [][]string{{"mkdir", "d"}, {"mkdir", "e"}, {"link", "d/a", "../e/x"}}, []string{"d"},
			[][]string{{"write", "e/y"}, {no}, {"write", "e/x"}, {yes}, {"write", "e/x"}, {yes}}},
		{"a masking link", [][]string{{"mkdir", "d"}, {"link", "d/a", "/dev/null"}}, []string{"d"},
			[][]string{{"write", "/dev/null"}, {no}, {"remove", "d/a"}, {yes}}},
		{"a file in the directory's place", [][]string{{"write", "d"}}, []string{"d"},
			[][]string{{"write", "d"}, {yes}, {"remove", "d"}, {"mkdir", "d"}, {yes}, {"write", "d/a"}, {yes}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newTree(t, tt.setup, tt.wanted...)
			for i, step := range tt.steps {
				if step[0] != yes && step[0] != no {
					f.do(step)
				} else if got := f.changed(); got != (step[0] == yes) {
					t.Errorf("step %d, %q: changed is %v, want %s; watched: %v", i, tt.steps[i-1], got, step[0], f.tracker.watcher.WatchList())
				}
			}
			want, got := slices.Sorted(maps.Keys(f.tracker.now.watched)), f.tracker.watcher.WatchList()
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("watched in the end (-want +got):\n%s", diff)
			}
		})
	}
}

// Each step of a run replaces the report.
func TestTracker_OtherFiles(t *testing.T) {
	f := newTree(t, [][]string{{"mkdir", "a"}, {"write", "file"}}, "a")
	for _, op := range [][]string{{"write", "a/.new"}, {"move", "a/.new", "a/report"}, {"write", "a/.new"}, {"move", "a/.new", "a/report"}, {"chmod", "a/report"}, {"remove", "a/report"}} {
		before := f.tracker.now
		if f.do(op); !f.changed() || f.tracker.now != before {
			t.Errorf("%q: no change, or all directories were read again", op)
		}
	}
	for _, op := range [][]string{{"link", "a/link", "../file"}, {"remove", "a/link"}} {
		before := f.tracker.now
		if f.do(op); !f.changed() || f.tracker.now == before {
			t.Errorf("%q: no change, or no directory was read again", op)
		}
	}
}

// The exit of a process waits for a descriptor that still has watches.
func TestTracker_End(t *testing.T) {
	f := newTree(t, [][]string{{"mkdir", "wanted"}, {"write", "wanted/file"}}, "wanted")
	if len(f.tracker.watcher.WatchList()) == 0 {
		t.Fatal("nothing was watched before")
	}
	f.tracker.end()
	if left := f.tracker.watcher.WatchList(); len(left) > 0 {
		t.Errorf("remaining watches %q", left)
	}
	if err := f.tracker.watcher.Add(f.dir); err != nil {
		t.Errorf("closed already: %v", err)
	}
}

func TestWrites_End(t *testing.T) {
	f := newTree(t, [][]string{{"write", "mode"}}, "mode")
	w := new(writes)
	if err := w.open(); err != nil {
		t.Fatal(err)
	}
	defer w.file.Close()
	if err := w.arm([]string{f.path("mode")}); err != nil || len(w.armed) != 1 {
		t.Fatalf("armed %v, %v", w.armed, err)
	}
	w.end()
	if err := w.arm([]string{f.path("mode")}); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", w.file.Fd())); err != nil || strings.Contains(string(text), "inotify wd") {
		t.Errorf("still watched: %s, %v", text, err)
	}
}

func TestSet_EndsTogether(t *testing.T) {
	dir := t.TempDir()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	s := new(Set)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first, err := s.Files(ctx, []string{dir}, time.Hour, log)
	if err != nil {
		t.Fatal(err)
	}
	var last []string
	s.join(func() { last = append(last, "joined") })
	second, err := s.Files(t.Context(), []string{dir}, time.Millisecond, log)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	for range first { // until it is closed
	}
	if len(last) != 1 {
		t.Errorf("the others were ended %d times", len(last))
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	select {
	case <-second:
		t.Error("a watch that ended with the first has signaled")
	case <-time.After(100 * time.Millisecond):
	}
}

// A daemon that fails immediately ends its set while another goroutine joins it.
func TestSet_JoinAfterEnd(t *testing.T) {
	var ended []string
	s := new(Set)
	for _, name := range []string{"first", "late"} {
		s.join(func() { ended = append(ended, name) })
		s.end()
	}
	if !slices.Equal(ended, []string{"first", "late"}) {
		t.Errorf("ended are %q", ended)
	}
}
