package sim_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/sim"
	"dcm/internal/testkit/sim/simtest"
)

// What the kernel caches must never outlive a change. After each change, the mounted tree is the one of
// the node, while another program looks up names of it all the time.
func TestFUSE_ForgetsChanges(t *testing.T) {
	const changes = 10
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	n := simtest.Start(t, "mi300x-4+h100-4", sim.Options{Memory: "NPS4"})
	var amd []partition.Address
	for _, g := range n.State().GPUs {
		if g.Compute != "" {
			amd = append(amd, g.Address)
		}
	}
	end := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		for {
			select {
			case <-end:
				return
			default:
				walk(n.Sys, func(string, fs.DirEntry, error) {})
			}
		}
	})
	defer reader.Wait()
	defer close(end)
	for i := range changes {
		gpu := amd[random.IntN(len(amd))]
		mode := []string{"SPX", "DPX", "QPX", "CPX"}[random.IntN(4)]
		change := []struct {
			name string
			do   func() error
		}{
			{"switch " + string(gpu) + " to " + mode, func() error { return write(file(n, gpu, "current_compute_partition"), mode) }},
			{"vanish " + string(gpu), func() error { return n.Inject(sim.Fault{Op: sim.OpNow, GPU: gpu, Vanish: true}) }},
			{"appear " + string(gpu), func() error { return n.Inject(sim.Fault{Op: sim.OpNow, GPU: gpu, Appear: true}) }},
			{"unload", func() error { return write(filepath.Join(n.Mount, "ctl/module"), "unload") }},
			{"load", func() error { return write(filepath.Join(n.Mount, "ctl/module"), "load") }},
			{"unload nvidia", n.UnloadNVIDIA},
			{"load nvidia", n.LoadNVIDIA},
			{"hide " + string(gpu), func() error { return n.Inject(sim.Fault{Op: sim.OpShow, GPU: gpu, File: "unique_id", Gone: true}) }},
			{"lie about " + string(gpu), func() error { return n.Inject(sim.Fault{Op: sim.OpShow, GPU: gpu, File: "vendor", Text: mode}) }},
			{"lock " + string(gpu), func() error {
				return n.Inject(sim.Fault{Op: sim.OpShow, GPU: gpu, File: "product_name", Permissions: 0o400})
			}},
			{"clear faults", func() error { n.ClearFaults(); return nil }},
		}[random.IntN(11)]
		err := change.do()
		if got := differences(t, n); len(got) > 0 {
			t.Fatalf("change %d, %s (%v): %d differences: %s", i, change.name, err, len(got), strings.Join(got[:min(len(got), 5)], "; "))
		}
	}
}

// differences returns where the mounted tree differs from that of the node.
func differences(t *testing.T, n *simtest.Node) []string {
	t.Helper()
	var out []string
	seen := 0
	walk(n.Sys, func(name string, d fs.DirEntry, err error) {
		path := "sys" + strings.TrimPrefix(name, n.Sys)
		seen++
		e, ok := n.Lookup(path)
		switch {
		case err != nil:
			out = append(out, err.Error())
		case !ok:
			out = append(out, path+" is not in the node")
		case d.IsDir():
			if got, want := names(name), fmt.Sprint(e.Names()); got != want {
				out = append(out, fmt.Sprintf("%s has %s, want %s", path, got, want))
			}
		default:
			out = append(out, fileDifferences(t, n, name, path, e)...)
		}
	})
	if seen < 100 {
		out = append(out, fmt.Sprintf("only %d names", seen))
	}
	return out
}

func fileDifferences(t *testing.T, n *simtest.Node, name, path string, e *sim.Entry) []string {
	t.Helper()
	info, err := os.Lstat(name)
	if err != nil {
		return []string{err.Error()}
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || stat.Mode != e.Mode {
		return []string{fmt.Sprintf("%s has mode %o, want %o", path, stat.Mode, e.Mode)}
	}
	if e.Target != "" {
		if target, err := os.Readlink(name); err != nil || target != e.Target {
			return []string{fmt.Sprintf("%s leads to %s (%v), want %s", path, target, err, e.Target)}
		}
		return nil
	}
	want, refused := n.ReadFile(t.Context(), path)
	got, err := os.ReadFile(name)
	if string(got) != want || !errors.Is(err, refused) {
		return []string{fmt.Sprintf("%s has %q (%v), want %q (%v)", path, got, err, want, refused)}
	}
	return nil
}

// walk is filepath.WalkDir over everything.
func walk(root string, visit func(string, fs.DirEntry, error)) {
	filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		visit(name, d, err)
		return nil
	})
}

func names(dir string) string {
	entries, _ := os.ReadDir(dir)
	out := make([]string, len(entries))
	for i, e := range entries {
		out[i] = e.Name()
	}
	return fmt.Sprint(out)
}

// A program may read the beginning of a file, and the next one continues from what the kernel has cached.
func TestFUSE_ReadInParts(t *testing.T) {
	n := simtest.Start(t, "h100-8", sim.Options{})
	const path = "proc/driver/nvidia-caps/mig-minors"
	want, err := n.ReadFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	f := open(t, filepath.Join(n.Mount, path))
	if _, err := f.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if got := read(t, filepath.Join(n.Mount, path)); got != strings.TrimSpace(want) {
		t.Errorf("%d bytes, want %d", len(got), len(want))
	}
}
