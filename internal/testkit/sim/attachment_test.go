package sim

import (
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"dcm/internal/gpu/partition"
)

// kfdOf opens /dev/kfd for a process.
func kfdOf(n *Node, t *testing.T, pid int) *Handle {
	t.Helper()
	h, err := openKFD(n, pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// renderOf opens the first render node of a GPU for a process.
func renderOf(n *Node, t *testing.T, a partition.Address, pid int) *Handle {
	t.Helper()
	b := n.find(a)
	h, err := openDRM(n, b, minorsOf(n, b, 0)[0], pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

func TestAttachment_Switch(t *testing.T) {
	for _, test := range []struct {
		name     string
		open     func(*testing.T, *Node)
		nodeLock bool
		want     error // of a switch of the second GPU
	}{
		{"a process attached to all", func(t *testing.T, n *Node) { kfdOf(n, t, 1) }, false, syscall.EBUSY},
		{"to the first, by its node", func(t *testing.T, n *Node) { kfdOf(n, t, 1); renderOf(n, t, first, 1) }, false, nil},
		{"to the first, by its node opened before", func(t *testing.T, n *Node) { renderOf(n, t, first, 1); kfdOf(n, t, 1) }, false, nil},
		{"to the first, by the node of another process", func(t *testing.T, n *Node) { renderOf(n, t, first, 2); kfdOf(n, t, 1) }, false, syscall.EBUSY},
		{"to both, by their nodes", func(t *testing.T, n *Node) { renderOf(n, t, first, 1); kfdOf(n, t, 1); renderOf(n, t, second, 1) }, false, syscall.EBUSY},
		{"to the first, by a node closed since", func(t *testing.T, n *Node) { h := renderOf(n, t, first, 1); kfdOf(n, t, 1); h.Close() }, false, nil},
		{"to the first, by a rule", func(t *testing.T, n *Node) { allowOnly(n, t, 1, first); kfdOf(n, t, 1) }, false, nil},
		{"to the second, by a rule", func(t *testing.T, n *Node) { allowOnly(n, t, 1, second); kfdOf(n, t, 1) }, false, syscall.EBUSY},
		{"to the second, by a rule removed since", func(t *testing.T, n *Node) { allowOnly(n, t, 1, second); kfdOf(n, t, 1); allowOnly(n, t, 1) }, false, syscall.EBUSY},
		{"to all, by a rule for another process", func(t *testing.T, n *Node) { allowOnly(n, t, 2, first); kfdOf(n, t, 1) }, false, syscall.EBUSY},
		{"an older kernel, attached to the first", func(t *testing.T, n *Node) { allowOnly(n, t, 1, first); kfdOf(n, t, 1) }, true, syscall.EBUSY},
		{"an older kernel, no process", func(*testing.T, *Node) {}, true, nil},
	} {
		n := newNode(t, "mi300x-8", Options{})
		lockNode(n, test.nodeLock)
		test.open(t, n)
		expect(t, test.name, n.SetCompute(t.Context(), second, "CPX"), test.want)
	}
}

func allowOnly(n *Node, t *testing.T, pid int, gpus ...partition.Address) {
	t.Helper()
	if err := setAllowance(n, Allowance{PID: pid, GPUs: gpus}); err != nil {
		t.Fatal(err)
	}
}

func TestAllow_Unit(t *testing.T) {
	n := newNode(t, "mi300x-8", Options{})
	own := cgroupsOf(os.Getpid())
	unit := path.Base(strings.TrimSpace(strings.Split(own, "\n")[0]))
	if unit == "/" || unit == "." {
		unit = "" // matches the root cgroup's empty last element
		t.Logf("this process is in a root cgroup: %q", own)
	}
	rule := Allowance{Unit: "vllm@3.service", GPUs: []partition.Address{first}}
	for cgroups, want := range map[string]bool{
		"0::/system.slice/vllm@3.service\n":                       true,
		"12:devices:/a\n0::/system.slice/vllm@3.service/worker\n": true,
		"0::/system.slice/vllm@30.service\n":                      false,
		"0::/system.slice/vllm@3.service.slice\n":                 false,
		"": false,
		"1:name=systemd:/system.slice/system-vllm.slice/vllm@3.service": true,
	} {
		if got := rule.applies(7, cgroups); got != want {
			t.Errorf("%q: %t, want %t", cgroups, got, want)
		}
	}
	for _, bad := range []Allowance{{}, {PID: 1, Unit: "a.service"}, {PID: 1, GPUs: []partition.Address{"0000:ff:00.0"}}} {
		expect(t, "a bad rule", setAllowance(n, bad), syscall.EINVAL)
	}
	if unit != "" {
		if err := setAllowance(n, Allowance{Unit: unit, GPUs: []partition.Address{first}}); err != nil {
			t.Fatal(err)
		}
		kfdOf(n, t, os.Getpid())
		expect(t, "a process of the unit", n.SetCompute(t.Context(), second, "CPX"), nil)
	}
}

// A process that starts during a switch cannot open /dev/kfd if it may use the switched GPU.
func TestOpenKFD_DuringSwitch(t *testing.T) {
	for _, test := range []struct {
		name     string
		gpus     []partition.Address
		nodeLock bool
		want     error
	}{
		{"may use all", nil, false, syscall.EINVAL},
		{"may use the switched GPU", []partition.Address{first}, false, syscall.EINVAL},
		{"may use another GPU", []partition.Address{second}, false, nil},
		{"may use another GPU, older kernel", []partition.Address{second}, true, syscall.EINVAL},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, "mi300x-8", Options{SwitchLatency: time.Second, NodeLock: test.nodeLock})
			allowOnly(n, t, 1, test.gpus...)
			done := make(chan error)
			go func() { done <- n.SetCompute(t.Context(), first, "CPX") }()
			synctest.Wait()
			h, err := openKFD(n, 1)
			expect(t, test.name, err, test.want)
			if h != nil {
				h.Close()
			}
			expect(t, test.name+": the switch", <-done, nil)
		})
	}
}

func TestKFDProcesses_AttachedGPUs(t *testing.T) {
	n := newNode(t, "mi300x-8", Options{})
	expect(t, "switch", n.SetCompute(t.Context(), first, "DPX"), nil)
	allowOnly(n, t, 1, first)
	kfdOf(n, t, 1)
	kfdOf(n, t, 2)
	files := func(pid int) (out []string) {
		for _, name := range slices.Sorted(maps.Keys(kfdProcesses(n)[strconv.Itoa(pid)].list())) {
			if strings.HasPrefix(name, "vram_") {
				out = append(out, name)
			}
		}
		return out
	}
	if one, all := files(1), files(2); len(one) != 2 || len(all) != 9 {
		t.Errorf("attached to %v and %v, want the two partitions of one GPU and all nine", one, all)
	}
	holders := n.State().Holders
	if len(holders) != 2 || !slices.Equal(holders[0].Attached, []partition.Address{first}) || len(holders[1].Attached) != 8 {
		t.Errorf("holders %+v", holders)
	}
}
