package placement

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
)

// node returns the partitions of GPUs in one hive at two NUMA nodes. Each GPU has `each` partitions, of
// which perDomain share a memory domain.
func node(gpus, each, perDomain int) []runstate.Part {
	var out []runstate.Part
	for g := range gpus {
		for i := range each {
			address := gpu(g)
			out = append(out, runstate.Part{
				Name: fmt.Sprintf("%s-%d", address, i), GPU: address, Index: i,
				Domain: i / perDomain, NUMA: g * 2 / gpus, Hive: 7,
			})
		}
	}
	return out
}

func gpu(n int) partition.Address {
	return partition.Address(fmt.Sprintf("0000:%02x:00.0", 5+n*0x20))
}

// holes returns partitions as taken: "0:0-5" means the first six of the first GPU.
func holes(text string) map[string]bool {
	taken := make(map[string]bool)
	for _, f := range strings.Fields(text) {
		var g, from, to int
		if _, err := fmt.Sscanf(f, "%d:%d-%d", &g, &from, &to); err != nil {
			panic(f)
		}
		for i := from; i <= to; i++ {
			taken[fmt.Sprintf("%s-%d", gpu(g), i)] = true
		}
	}
	return taken
}

// late returns the numbers of GPUs to avoid: "0:1" is the first GPU with the number 1.
func late(text string) map[partition.Address]int {
	out := make(map[partition.Address]int)
	for _, f := range strings.Fields(text) {
		var g, n int
		if _, err := fmt.Sscanf(f, "%d:%d", &g, &n); err != nil {
			panic(f)
		}
		out[gpu(g)] = n
	}
	return out
}

func short(list []runstate.Part) string {
	text := make([]string, len(list))
	for i, p := range list {
		text[i] = strings.TrimPrefix(p.Name, "0000:")
	}
	return strings.Join(text, " ")
}

func TestChoose(t *testing.T) {
	for _, tt := range []struct {
		name, taken string
		want        Want
		gives, why  string
	}{
		{"an empty node", "", Want{Partitions: 2}, "05:00.0-0 05:00.0-1", "2 of 0000:05:00.0, one memory domain, NUMA 0; leaves 6 free"},
		{"one", "", Want{Partitions: 1}, "05:00.0-0", "1 of 0000:05:00.0, NUMA 0; leaves 7 free"},
		{"pack fills a GPU in use", "1:0-5", Want{Partitions: 2}, "25:00.0-6 25:00.0-7", "2 of 0000:25:00.0, one memory domain, NUMA 0; leaves 0 free"},
		{"pack takes the fullest GPU, not the closest pair", "0:0-2 1:0-0 1:2-2 1:4-6", Want{Partitions: 3}, "25:00.0-1 25:00.0-3 25:00.0-7", "3 of 0000:25:00.0, NUMA 0; leaves 0 free"},
		{"pack keeps to one NUMA node", "0:0-4 1:0-7 2:0-7 3:0-7", Want{Partitions: 10}, "85:00.0-0 85:00.0-1 85:00.0-2 85:00.0-3 85:00.0-4 85:00.0-5 85:00.0-6 85:00.0-7 a5:00.0-0 a5:00.0-1", "8 of 0000:85:00.0 and 2 of 0000:a5:00.0, NUMA 1; leaves 6 free"},
		{"link prefers the pair that shares memory", "0:0-0 0:2-2 0:4-6 1:0-0", Want{Partitions: 2, Place: Link}, "25:00.0-2 25:00.0-3", "2 of 0000:25:00.0, one memory domain, NUMA 0; leaves 5 free"},
		{"spread goes over the GPUs", "0:0-0", Want{Partitions: 3, Place: Spread}, "25:00.0-0 45:00.0-0 85:00.0-0", "1 of 0000:25:00.0, 1 of 0000:45:00.0 and 1 of 0000:85:00.0, 2 NUMA nodes; leaves 21 free"},
		{"spread over all GPUs", "", Want{Partitions: 8, Place: Spread}, "05:00.0-0 25:00.0-0 45:00.0-0 65:00.0-0 85:00.0-0 a5:00.0-0 c5:00.0-0 e5:00.0-0", "1 of each of 8 GPUs, 2 NUMA nodes; leaves 56 free"},
		{"spread goes over the memory domains of a GPU", "", Want{Partitions: 3, Place: Spread, Among: []partition.Address{gpu(3)}}, "65:00.0-0 65:00.0-2 65:00.0-4", "3 of 0000:65:00.0, NUMA 0; leaves 5 free"},
		{"a whole GPU has no held partition", "0:3-3", Want{GPUs: 1}, "25:00.0-0 25:00.0-1 25:00.0-2 25:00.0-3 25:00.0-4 25:00.0-5 25:00.0-6 25:00.0-7", "all of 0000:25:00.0, NUMA 0; leaves 6 whole GPUs free"},
		{"a GPU to avoid is chosen last", "", Want{Partitions: 1, Late: late("0:1")}, "25:00.0-0", "1 of 0000:25:00.0, NUMA 0; leaves 7 free"},
		{"also if another one is fuller", "0:0-5", Want{Partitions: 1, Late: late("0:1")}, "25:00.0-0", "1 of 0000:25:00.0, NUMA 0; leaves 7 free"},
		{"spread goes over the other GPUs", "", Want{Partitions: 8, Place: Spread, Late: late("0:1")}, "25:00.0-0 25:00.0-2 45:00.0-0 65:00.0-0 85:00.0-0 a5:00.0-0 c5:00.0-0 e5:00.0-0", "8 of 7 GPUs, 2 NUMA nodes; leaves 48 free"},
		{"the lower number first", "2:0-7 3:0-7 4:0-7 5:0-7 6:0-7 7:0-7", Want{Partitions: 2, Late: late("0:2 1:1")}, "25:00.0-0 25:00.0-1", "2 of 0000:25:00.0, one memory domain, NUMA 0; leaves 6 free"},
		{"few of the higher number", "2:0-7 3:0-7 4:0-7 5:0-7 6:0-7 7:0-7", Want{Partitions: 9, Late: late("0:2 1:1")}, "05:00.0-0 25:00.0-0 25:00.0-1 25:00.0-2 25:00.0-3 25:00.0-4 25:00.0-5 25:00.0-6 25:00.0-7", "1 of 0000:05:00.0 and 8 of 0000:25:00.0, NUMA 0; leaves 7 free"},
		{"a whole GPU to avoid", "1:0-0", Want{GPUs: 1, Late: late("0:1")}, "45:00.0-0 45:00.0-1 45:00.0-2 45:00.0-3 45:00.0-4 45:00.0-5 45:00.0-6 45:00.0-7", "all of 0000:45:00.0, NUMA 0; leaves 6 whole GPUs free"},
		{"the only GPU left", "1:0-7 2:0-7 3:0-7 4:0-7 5:0-7 6:0-7 7:0-7", Want{Partitions: 1, Late: late("0:1")}, "05:00.0-0", "1 of 0000:05:00.0, NUMA 0; leaves 7 free"},
		{"none", "", Want{}, "", "nothing is asked for"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Choose(node(8, 8, 2), holes(tt.taken), tt.want)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{tt.gives, tt.why}, []string{short(got.Partitions), got.Reason}); diff != "" {
				t.Errorf("choice (-want +got):\n%s", diff)
			}
		})
	}
}

func TestShortOfPartitions(t *testing.T) {
	for _, tt := range []struct {
		want  Want
		taken string
		text  string
	}{
		{Want{Partitions: 17}, "", "17 partitions requested, but 16 of 16 are free"},
		{Want{Partitions: 9, Among: []partition.Address{gpu(0)}}, "0:0-6", "9 partitions requested, but 1 of 8 is free"},
		{Want{Partitions: 1, Kinds: []string{"other"}}, "", "1 partition requested, but 0 of 0 are free"},
		{Want{GPUs: 2}, "0:3-3", "2 whole GPUs requested, but 1 of 2 is free"},
	} {
		_, err := Choose(node(2, 8, 2), holes(tt.taken), tt.want)
		var lack *ShortError
		if !errors.As(err, &lack) || err.Error() != tt.text {
			t.Errorf("%+v: %v, want %q", tt.want, err, tt.text)
		}
	}
}

// ofKinds changes the kind of each fourth partition, and of all of the last GPU.
func ofKinds(all []runstate.Part) []runstate.Part {
	for i := range all {
		if all[i].Kind = "large"; i%4 == 3 || all[i].GPU == all[len(all)-1].GPU {
			all[i].Kind = "small"
		}
	}
	return all
}

func TestChoose_Kind(t *testing.T) {
	all := ofKinds(node(3, 8, 2))
	for _, tt := range []struct {
		want Want
		give string
	}{
		{Want{Partitions: 2, Kinds: []string{"small"}}, "05:00.0-3 05:00.0-7"},
		{Want{Partitions: 1, Kinds: []string{"large"}}, "05:00.0-0"},
		{Want{Partitions: 3, Kinds: []string{"small"}, Among: []partition.Address{gpu(0), gpu(2)}}, string(gpu(2)[5:]) + "-0"},
		{Want{GPUs: 1, Kinds: []string{"small"}}, string(gpu(2)[5:]) + "-0"},
	} {
		got, err := Choose(all, nil, tt.want)
		if err != nil || !strings.HasPrefix(short(got.Partitions), tt.give) {
			t.Errorf("%+v: %s, %v", tt.want, short(got.Partitions), err)
		}
	}
	if _, err := Choose(all, nil, Want{GPUs: 2, Kinds: []string{"small"}}); err == nil {
		t.Error("a GPU with partitions of another kind was chosen as a whole GPU")
	}
}

// TestChoose_Optimal compares the choice with the best of all subsets, for random taken partitions.
func TestChoose_Optimal(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 400 {
		all := node(1+r.IntN(8), 8, 1+r.IntN(4))
		for i := range all { // with or without a hive, at random
			all[i].Hive = uint64(all[i].GPU[6]) % 3
		}
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		taken := make(map[string]bool)
		for _, p := range all[min(len(all), 6+r.IntN(9)):] {
			taken[p.Name] = true
		}
		n := 1 + r.IntN(min(8, len(all)-len(taken)))
		got, err := Choose(all, taken, Want{Partitions: n, Place: Link})
		if err != nil {
			t.Fatal(err)
		}
		free := slices.DeleteFunc(slices.Clone(all), func(p runstate.Part) bool { return taken[p.Name] })
		if best := cheapest(free, n, nil, 0, -1); got.Cost != best || len(got.Partitions) != n || Sum(got.Partitions) != got.Cost {
			t.Errorf("%d of %s: the cost of %s is %d, the lowest is %d", n, short(free), short(got.Partitions), got.Cost, best)
		}
	}
}

// cheapest returns the lowest cost of all subsets of n partitions.
func cheapest(free []runstate.Part, n int, have []runstate.Part, cost, best int) int {
	if best >= 0 && cost >= best {
		return best
	}
	if n == 0 {
		return cost
	}
	for i, p := range free[:len(free)-n+1] {
		more := cost
		for _, h := range have {
			more += Cost(h, p)
		}
		best = cheapest(free[i+1:], n-1, append(have, p), more, best)
	}
	return best
}

func TestChoose_OrderIndependent(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	all, taken := node(8, 8, 2), holes("0:0-3 2:1-6 5:0-7 7:2-2")
	for _, place := range Places() {
		want := Want{Partitions: 7, Place: place}
		first, err := Choose(all, taken, want)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			again, err := Choose(all, taken, want)
			if diff := cmp.Diff(first, again); err != nil || diff != "" {
				t.Errorf("%s: %v (-first +again):\n%s", place, err, diff)
			}
		}
	}
}

func BenchmarkChoose64(b *testing.B) {
	all := node(8, 8, 2)
	for b.Loop() {
		if _, err := Choose(all, nil, Want{Partitions: 8, Place: Link}); err != nil {
			b.Fatal(err)
		}
	}
}

// A GPU to avoid is chosen only for what the others cannot give, in each place, also as a whole.
func TestChoose_LateInEachPlace(t *testing.T) {
	late := map[partition.Address]int{gpu(0): MaxLate, gpu(1): 1}
	for _, tt := range []struct {
		taken string
		want  Want
		give  string
	}{
		{"", Want{Partitions: 1}, "45:00.0-0"},
		{"0:0-6 1:0-6", Want{Partitions: 1}, "45:00.0-0"},
		{"", Want{Partitions: 1, Place: Spread}, "45:00.0-0"},
		{"", Want{Partitions: 2, Place: Link}, "45:00.0-0 45:00.0-1"},
		{"2:0-6", Want{Partitions: 2}, "25:00.0-0 45:00.0-7"},
		{"", Want{Partitions: 3, Place: Spread, Among: []partition.Address{gpu(0), gpu(1)}}, "25:00.0-0 25:00.0-2 25:00.0-4"},
		{"1:0-7 2:0-6", Want{Partitions: 2}, "05:00.0-0 45:00.0-7"},
		{"", Want{Partitions: 9, Among: []partition.Address{gpu(0), gpu(1)}}, "05:00.0-0 25:00.0-0 25:00.0-1 25:00.0-2 25:00.0-3 25:00.0-4 25:00.0-5 25:00.0-6 25:00.0-7"},
		{"2:0-0", Want{GPUs: 1}, "25:00.0-0 25:00.0-1 25:00.0-2 25:00.0-3 25:00.0-4 25:00.0-5 25:00.0-6 25:00.0-7"},
	} {
		tt.want.Late = late
		got, err := Choose(node(3, 8, 2), holes(tt.taken), tt.want)
		if diff := cmp.Diff(tt.give, short(got.Partitions)); err != nil || diff != "" {
			t.Errorf("%+v with %q taken: %v (-want +got):\n%s", tt.want, tt.taken, err, diff)
		}
	}
}
