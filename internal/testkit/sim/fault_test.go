package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/gpu/partition"
)

const gpuDir = "sys/bus/pci/devices/"

func TestFault_ByOperation(t *testing.T) {
	type want struct {
		errs []error // of three writes of CPX, SPX, CPX
		mode partition.Compute
	}
	for name, test := range map[string]struct {
		fault Fault
		want  want
	}{
		"none":                   {Fault{Op: OpMemory, Wrong: true}, want{[]error{nil, nil, nil}, partition.CPX}},
		"once":                   {Fault{Op: OpCompute, Errno: Errno(syscall.EPERM)}, want{[]error{syscall.EPERM, nil, nil}, partition.CPX}},
		"twice":                  {Fault{Op: OpCompute, Errno: Errno(syscall.EBUSY), Times: 2}, want{[]error{syscall.EBUSY, syscall.EBUSY, nil}, partition.CPX}},
		"always":                 {Fault{Op: OpCompute, Errno: Errno(syscall.EBUSY), Always: true}, want{[]error{syscall.EBUSY, syscall.EBUSY, syscall.EBUSY}, partition.SPX}},
		"later":                  {Fault{Op: OpCompute, Errno: Errno(syscall.EBUSY), Skip: 2}, want{[]error{nil, nil, syscall.EBUSY}, partition.SPX}},
		"another GPU":            {Fault{Op: OpCompute, GPU: second, Errno: Errno(syscall.EPERM)}, want{[]error{nil, nil, nil}, partition.CPX}},
		"EIO comes after":        {Fault{Op: OpCompute, Errno: Errno(syscall.EIO), Skip: 2}, want{[]error{nil, nil, syscall.EIO}, partition.CPX}},
		"error after the effect": {Fault{Op: OpCompute, Errno: Errno(syscall.ENOMEM), After: true, Skip: 2}, want{[]error{nil, nil, syscall.ENOMEM}, partition.CPX}},
		"claims success":         {Fault{Op: OpCompute, Wrong: true, Always: true}, want{[]error{nil, nil, nil}, partition.SPX}},
		"vanishes":               {Fault{Op: OpCompute, Vanish: true, Skip: 1}, want{[]error{nil, syscall.ENODEV, syscall.ENODEV}, partition.CPX}},
		"vanished before":        {Fault{Op: OpNow, GPU: first, Vanish: true}, want{[]error{syscall.ENODEV, syscall.ENODEV, syscall.ENODEV}, partition.SPX}},
		"a matching GPU":         {Fault{Op: OpCompute, GPU: first, Errno: Errno(syscall.ENXIO)}, want{[]error{syscall.ENXIO, nil, nil}, partition.CPX}},
		"unload is not hit":      {Fault{Op: OpUnload, Errno: Errno(syscall.EBUSY)}, want{[]error{nil, nil, nil}, partition.CPX}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, "mi300x-8", Options{})
			if err := n.Inject(test.fault); err != nil {
				t.Fatal(err)
			}
			for i, mode := range []string{"CPX", "SPX", "CPX"} {
				expect(t, mode, n.SetCompute(t.Context(), first, mode), test.want.errs[i])
			}
			if got := n.find(first).compute; got != test.want.mode {
				t.Errorf("ended in %s, want %s", got, test.want.mode)
			}
		})
	}
}

func TestFault_Driver(t *testing.T) {
	ctx := t.Context()
	n := newNode(t, "mi300x-8", Options{})
	inject := func(f Fault) {
		t.Helper()
		if err := n.Inject(f); err != nil {
			t.Fatal(err)
		}
	}
	inject(Fault{Op: OpUnload, Errno: Errno(syscall.EBUSY)})
	expect(t, "unload", n.Unload(ctx), syscall.EBUSY)
	expect(t, "unload again", n.Unload(ctx), nil)
	inject(Fault{Op: OpLoad, Errno: Errno(syscall.EIO)})
	expect(t, "load", n.Load(ctx, Parameters{}), syscall.EIO)
	if s := n.State().Module; s != "" {
		t.Errorf("module is %q after a load that failed", s)
	}
	inject(Fault{Op: OpLoad, GPU: first, Errno: Errno(syscall.EINVAL)})
	inject(Fault{Op: OpLoad, GPU: second, Vanish: true})
	expect(t, "load", n.Load(ctx, Parameters{}), nil)
	for _, g := range n.State().GPUs {
		if bound := g.Address != first && g.Address != second; g.Bound != bound {
			t.Errorf("%s: bound is %v, want %v", g.Address, g.Bound, bound)
		}
	}
	if _, ok := n.Lookup(gpuDir + string(second)); ok {
		t.Errorf("%s vanished, but is still on the bus", second)
	}
	if _, ok := n.Lookup(gpuDir + string(first)); !ok {
		t.Errorf("%s failed its probe, but is not on the bus", first)
	}
	n.Reset()
	if g := n.State().GPUs[1]; !g.Bound || g.Compute != partition.SPX {
		t.Errorf("after a reset: %+v", g)
	}
}

func TestFault_LostMemoryRequest(t *testing.T) {
	for name, f := range map[string]Fault{
		"request": {Op: OpMemory, Wrong: true},
		"load":    {Op: OpLoad, GPU: second, Wrong: true}, // reverts the hive
	} {
		ctx := t.Context()
		n := newNode(t, "mi300x-8", Options{})
		if err := n.Inject(f); err != nil {
			t.Fatal(err)
		}
		expect(t, name, n.SetMemory(ctx, first, "NPS4"), nil)
		expect(t, name, n.Unload(ctx), nil)
		expect(t, name, n.Load(ctx, Parameters{}), nil)
		if got := modes(n)[first].Memory; got != partition.NPS1 {
			t.Errorf("%s: got %s, want NPS1 still", name, got)
		}
	}
}

func TestFault_Hang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, "mi300x-8", Options{})
		for _, f := range []Fault{
			{Op: OpCompute, Hang: Forever},
			{Op: OpCompute, Hang: Duration(time.Minute)},
			{Op: OpLoad, GPU: second, Hang: Duration(time.Minute)},
		} {
			if err := n.Inject(f); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		expect(t, "forever", n.SetCompute(ctx, first, "CPX"), syscall.EINTR)
		begun := time.Now()
		expect(t, "a minute", n.SetCompute(t.Context(), first, "CPX"), nil)
		if took := time.Since(begun); took != time.Minute {
			t.Errorf("hung for %v, want a minute", took)
		}
		expect(t, "unload", n.Unload(t.Context()), nil)
		expect(t, "load", n.Load(t.Context(), Parameters{}), nil)
		if n.State().GPUs[1].Bound {
			t.Error("late GPU: want it absent at first")
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if !n.State().GPUs[1].Bound {
			t.Error("a GPU that is late never came")
		}
	})
}

func TestFault_HangUntilCleared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, "mi300x-8", Options{})
		hang := func(f Fault) {
			if f.Hang = Forever; n.Inject(f) != nil {
				t.Fatalf("fault refused: %+v", f)
			}
		}
		ended := make(chan error)
		hang(Fault{Op: OpCompute, Always: true})
		go func() { ended <- n.SetCompute(t.Context(), first, "CPX") }()
		synctest.Wait()
		n.ClearFaults()
		expect(t, "switch", <-ended, nil)
		hang(Fault{Op: OpLoad, GPU: second})
		expect(t, "unload", n.Unload(t.Context()), nil)
		expect(t, "load", n.Load(t.Context(), Parameters{}), nil)
		synctest.Wait()
		if n.State().GPUs[1].Bound {
			t.Error("probe: the GPU is bound during its hang")
		}
		n.ClearFaults()
		synctest.Wait()
		if !n.State().GPUs[1].Bound {
			t.Error("probe: the GPU is not bound after the faults were cleared")
		}
	})
}

func TestFault_WrongAndShortReads(t *testing.T) {
	ctx := t.Context()
	n := newNode(t, "mi300x-8", Options{})
	read := func() string {
		t.Helper()
		text, err := n.ReadFile(ctx, gpuDir+string(first)+"/"+computeFile)
		expect(t, "read", err, nil)
		return text
	}
	for _, f := range []Fault{
		{Op: OpRead, GPU: first, File: computeFile, Short: true},
		{Op: OpRead, GPU: first, File: computeFile, Wrong: true},
		{Op: OpRead, GPU: first, File: memoryFile, Wrong: true},
	} {
		if err := n.Inject(f); err != nil {
			t.Fatal(err)
		}
	}
	got := []string{read(), read(), read()}
	if diff := cmp.Diff([]string{"S", "DPX\n", "SPX\n"}, got); diff != "" {
		t.Errorf("three reads (-want +got):\n%s", diff)
	}
}

func TestFault_Invalid(t *testing.T) {
	n := newNode(t, "mi300x-8", Options{})
	for _, test := range []struct {
		fault Fault
		want  string
	}{
		{Fault{Op: "frob", Wrong: true}, "unknown operation"},
		{Fault{Op: OpCompute}, "does nothing"},
		{Fault{Op: OpNow, Vanish: true}, "only one GPU"},
		{Fault{Op: OpNow, GPU: first, Vanish: true, Appear: true}, "only one GPU"},
		{Fault{Op: OpNow, GPU: first, Appear: true}, "that has vanished"},
		{Fault{Op: OpLoad, GPU: first, Appear: true}, "only appear now"},
		{Fault{Op: OpNow, GPU: first, Wrong: true}, "vanishing"},
		{Fault{Op: OpLoad, GPU: "0000:ff:00.0", Vanish: true}, "no GPU at 0000:ff:00.0"},
		{Fault{Op: OpLoad, Wrong: true, Times: -1}, "less than zero"},
		{Fault{Op: OpShow, File: "dev/kfd"}, "let it be gone"},
		{Fault{Op: OpShow, Gone: true}, "by its name"},
	} {
		if err := n.Inject(test.fault); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: got %v, want an error with %q", test.fault, err, test.want)
		}
	}
}

func TestFault_FileContent(t *testing.T) {
	n := newNode(t, "mi300x-8", Options{})
	const node = "dev/dri/renderD136"
	file := "sys/bus/pci/devices/" + string(first) + "/current_compute_partition"
	look := func() string {
		t.Helper()
		e, err := follow(n, file, 40)
		if err != nil {
			t.Fatal(err)
		}
		_, gone := follow(n, node, 40)
		return fmt.Sprintf("%o %v", e.Mode&0o777, gone)
	}
	before := look()
	for _, f := range []Fault{{Op: OpShow, File: node, Gone: true}, {Op: OpShow, GPU: first, File: "current_compute_partition", Permissions: 0o666}} {
		if err := n.Inject(f); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := look(), "666 "+syscall.ENOENT.Error(); got != want {
		t.Errorf("%s is shown, want %s", got, want)
	}
	n.ClearFaults()
	if got := look(); got != before {
		t.Errorf("%s is shown, want %s", got, before)
	}
}

// The entries of KFD are made at each access, under the lock of the node.
func TestFault_KFDNode(t *testing.T) {
	n := newNode(t, "mi300x-8", Options{})
	const nodes = kfdDir + "/topology/nodes"
	read := func(name string) string {
		t.Helper()
		text, err := n.ReadFile(t.Context(), nodes+"/"+name)
		if err != nil {
			return err.Error()
		}
		return text
	}
	honest, count := read("3/properties"), len(kfdNodes(n))
	for _, f := range []Fault{{Op: OpShow, File: nodes + "/2", Gone: true}, {Op: OpShow, File: nodes + "/3/gpu_id", Text: "0"}, {Op: OpShow, File: nodes + "/3/properties", Text: "simd_count 4"}} {
		if err := n.Inject(f); err != nil {
			t.Fatal(err)
		}
	}
	dir, _ := n.Lookup(nodes)
	if got := len(dir.Names()); got != count-1 {
		t.Errorf("%d nodes, want %d", got, count-1)
	}
	lie := read("3/properties")
	if got := read("3/gpu_id"); got != "0\n" || !strings.Contains(lie, "\nsimd_count 4\n") || len(strings.Split(lie, "\n")) != len(strings.Split(honest, "\n")) {
		t.Errorf("gpu_id %q, properties\n%s", got, lie)
	}
	n.ClearFaults()
	if got := read("3/properties"); got != honest {
		t.Errorf("after the faults:\n%s", got)
	}
}

func TestFault_Names(t *testing.T) {
	want := Fault{Op: OpCompute, GPU: first, Errno: Errno(syscall.EBUSY), Hang: Duration(1500 * time.Millisecond), Always: true}
	text := `{"op":"compute","gpu":"0000:05:00.0","errno":"EBUSY","hang":"1.5s","always":true}`
	var got Fault
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	out, err := json.Marshal(want)
	if err != nil || string(out) != text {
		t.Errorf("wrote %s, %v, want %s", out, err, text)
	}
	for _, bad := range []string{`{"errno":"EFROB"}`, `{"hang":"soon"}`, `{"hang":"-3s"}`} {
		if err := json.Unmarshal([]byte(bad), &got); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
}
