package dmem

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"dcm/internal/gpu/partition"
)

// newTree returns a plain directory in place of a cgroup2 file system. A file keeps what was written to
// it, while the kernel would return the limits of all regions.
func newTree(t *testing.T, files map[string]string) Tree {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return Tree{Root: root}
}

const capacity = "drm/0000:05:00.0/vram 206158430208\ndrm/0000:05:00.0/stolen 8650752\ndrm/0000:26:00.0/vram0 206158430208\nother\x1b/thing 1\n"

func TestCap(t *testing.T) {
	const scope = "dcm.slice/dcm-share2-0-00000001.scope"
	handed := map[string]string{"dmem.capacity": capacity, "cgroup.subtree_control": "", "dcm.slice/cgroup.subtree_control": ""}
	with := func(more map[string]string) map[string]string {
		out := map[string]string{scope + "/dmem.max": "drm/0000:05:00.0/vram max\n"}
		for _, m := range []map[string]string{handed, more} {
			for k, v := range m {
				out[k] = v
			}
		}
		return out
	}
	for _, c := range []struct {
		name  string
		files map[string]string
		caps  map[partition.Address]uint64
		err   string
		none  bool // an [UnsupportedError] is returned
	}{
		{name: "no controller", caps: map[partition.Address]uint64{"0000:05:00.0": 1}, err: "this kernel has no dmem controller", none: true},
		{name: "no region of the GPU", files: with(nil), caps: map[partition.Address]uint64{"0000:46:00.0": 1}, err: "the driver of 0000:46:00.0 does not count", none: true},
		{name: "not handed down", files: map[string]string{"dmem.capacity": capacity}, caps: map[partition.Address]uint64{"0000:05:00.0": 1}, err: "cannot enable the dmem controller in", none: true},
		{name: "capped", files: with(nil), caps: map[partition.Address]uint64{"0000:05:00.0": 8 << 30}},
		{name: "another name of the region", files: with(nil), caps: map[partition.Address]uint64{"0000:26:00.0": 8 << 30}},
		{name: "nothing to cap", files: with(nil)},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree := newTree(t, c.files)
			err := tree.Cap(scope, c.caps)
			if c.err != "" {
				_, none := errors.AsType[*UnsupportedError](err)
				if err == nil || !strings.Contains(err.Error(), c.err) || none != c.none {
					t.Errorf("Cap: %v, want %s", err, c.err)
				}
				return
			}
			got, read := tree.Capped(scope)
			if err != nil || read != nil {
				t.Fatal(err, read)
			}
			if c.caps == nil {
				c.caps = map[partition.Address]uint64{}
			}
			if diff := cmp.Diff(c.caps, got); diff != "" {
				t.Errorf("limits (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEnable_InEveryAncestor(t *testing.T) {
	tree := newTree(t, map[string]string{"dmem.capacity": capacity, "cgroup.subtree_control": "", "dcm.slice/cgroup.subtree_control": "", "dcm.slice/a.scope/cgroup.procs": ""})
	if err := tree.enable("dcm.slice/a.scope"); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"cgroup.subtree_control", "dcm.slice/cgroup.subtree_control"} {
		if text, err := os.ReadFile(filepath.Join(tree.Root, file)); err != nil || string(text) != "+dmem" {
			t.Errorf("%s: got %q, %v; want +dmem", file, text, err)
		}
	}
}

// The kernel may accept a write and not set the limit.
func TestCap_VerifiesTheLimit(t *testing.T) {
	tree := newTree(t, map[string]string{"dmem.capacity": capacity})
	dir := filepath.Join(tree.Root, "dcm.slice/a.scope")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/null", filepath.Join(dir, "dmem.max")); err != nil {
		t.Fatal(err)
	}
	err := tree.Cap("dcm.slice/a.scope", map[partition.Address]uint64{"0000:05:00.0": 1 << 30})
	if err == nil || !strings.Contains(err.Error(), "the kernel shows 0 for 0000:05:00.0, and not 1073741824") {
		t.Errorf("Cap: got %v, want the limit that the kernel shows", err)
	}
}

// A cgroup that uses more than its new limit keeps the old one. The other limits are set.
func TestCap_Busy(t *testing.T) {
	const scope, first, second = "dcm.slice/dcm-share2-0-00000001.scope", "0000:05:00.0", "0000:26:00.0"
	for _, test := range []struct {
		name string
		sets bool // the kernel sets the limit, although it cannot reclaim
	}{{"limit not set", false}, {"limit set", true}} {
		t.Run(test.name, func(t *testing.T) {
			limits := map[string]string{"drm/" + first + "/vram": "max", "drm/" + second + "/vram0": "max"}
			tree := newTree(t, map[string]string{"dmem.capacity": capacity, scope + "/dmem.max": ""})
			tree.writeFile = func(path, text string) error {
				fields := strings.Fields(text)
				busy := strings.Contains(fields[0], first)
				if !busy || test.sets {
					limits[fields[0]] = fields[1]
				}
				var all string
				for region, limit := range limits {
					all += region + " " + limit + "\n"
				}
				if err := os.WriteFile(path, []byte(all), 0o644); err != nil {
					return err
				}
				if busy {
					return unix.EBUSY
				}
				return nil
			}
			err := tree.Cap(scope, map[partition.Address]uint64{first: 1 << 30, second: 2 << 30})
			if _, busy := errors.AsType[*BusyError](err); busy == test.sets || test.sets && err != nil {
				t.Errorf("error %v", err)
			}
			if got := limits["drm/"+second+"/vram0"]; got != "2147483648" {
				t.Errorf("the limit of the other GPU is %s", got)
			}
		})
	}
}
