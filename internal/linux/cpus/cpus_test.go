package cpus

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// put writes the topology of a host: the socket of each core, the number of threads of a core, and the
// CPUs of each NUMA node. The second threads have the numbers after those of all first ones.
func put(t *testing.T, sockets []int, threads int, nodes ...string) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text+"\n"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for i, socket := range sockets {
		var siblings []string
		for n := range threads {
			siblings = append(siblings, fmt.Sprint(i+n*len(sockets)))
		}
		for _, cpu := range siblings {
			write("cpu/cpu"+cpu+"/topology/physical_package_id", fmt.Sprint(socket))
			write("cpu/cpu"+cpu+"/topology/thread_siblings_list", strings.Join(siblings, ","))
		}
	}
	write("cpu/cpufreq/boost", "1")
	for i, list := range nodes {
		write(fmt.Sprintf("node/node%d/cpulist", i), list)
	}
	return dir
}

func TestNear(t *testing.T) {
	for _, test := range []struct {
		name string
		dir  string
		want []string // by NUMA node, from -1
	}{
		{"two sockets with two threads a core", put(t, []int{0, 0, 1, 1}, 2, "0-1,4-5", "2-3,6-7"), []string{"", "0-1", "2-3", ""}},
		{"two NUMA nodes a socket", put(t, []int{0, 0, 1, 1}, 1, "0", "1", "2", "3"), []string{"", "0-1", "0-1", "2-3", "2-3"}},
		{"alternating sockets", put(t, []int{0, 1, 0, 1}, 1, "0,2", "1,3"), []string{"", "0-1", "2-3"}},
		{"the second socket has the lowest CPU", put(t, []int{1, 1, 0, 0}, 1, "0-1", "2-3"), []string{"", "0-1", "2-3"}},
		{"one socket", put(t, []int{0, 0}, 1, "0-1"), []string{"", ""}},
		{"a node without CPUs", put(t, []int{0, 1}, 1, "0", "1", ""), []string{"", "0", "1", ""}},
		{"no topology", t.TempDir(), []string{"", ""}},
	} {
		t.Run(test.name, func(t *testing.T) {
			topology, err := Read(test.dir)
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range test.want {
				if got := topology.Near(i - 1); got != want {
					t.Errorf("node %d: %q, want %q", i-1, got, want)
				}
			}
		})
	}
}

func TestRead_OfflineCPU(t *testing.T) {
	dir := put(t, []int{0, 0, 1, 1}, 1, "0", "2-3")
	if err := os.RemoveAll(filepath.Join(dir, "cpu/cpu1/topology")); err != nil {
		t.Fatal(err)
	}
	topology, err := Read(dir)
	if got := topology.Near(1); err != nil || got != "1-2" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestParseList(t *testing.T) {
	for text, want := range map[string]string{"": "", "0": "0", "0-3,8": "0-3,8", "2,1": "1-2", "x,3": "3", "0-99999999999": "", "-1": "", "5-": ""} {
		if got := formatList(parseList(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
