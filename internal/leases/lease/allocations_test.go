package lease

import (
	"fmt"
	"slices"
	"testing"

	"dcm/internal/engine/runstate"
	"dcm/internal/leases/placement"
)

// withLeases returns a snapshot of 64 partitions and n leases of one partition each, of two users.
func withLeases(n int) Snapshot {
	s := Snapshot{Parts: make([]runstate.Part, 64)}
	for i := range s.Parts {
		s.Parts[i] = runstate.Part{Name: fmt.Sprintf("0000:05:00.0-%d", i), GPU: "0000:05:00.0", Index: i, Render: fmt.Sprintf("/dev/dri/renderD%d", 128+i)}
		if i < n {
			s.Units = append(s.Units, UnitDevices{Unit: fmt.Sprintf("dcm-lease-%d-%08x.scope", 1000+i%2, i), Active: true, Allowed: []string{CommonNode, s.Parts[i].Render}})
		}
	}
	return s
}

func TestAllocations(t *testing.T) {
	s := withLeases(2)
	first, second := s.Units[0], s.Units[1]
	second.Allowed = []string{CommonNode, s.Parts[0].Render, s.Parts[1].Render, s.Parts[1].Render}
	ended := UnitDevices{Unit: "dcm-lease-0-0000ffff.scope", Allowed: []string{s.Parts[2].Render}}
	s.Units = []UnitDevices{first, ended, second}
	s.Open = map[string][]string{s.Parts[1].Name: {second.Unit, "python[4711]"}}
	s.Reserved = map[string]string{s.Parts[3].Name: "vllm"}
	for i, want := range [][]string{{first.Unit, second.Unit}, {second.Unit, "python[4711]"}, nil, {"reservation vllm"}, nil} {
		if got := Allocations(s)[i].Whose(); !slices.Equal(got, want) {
			t.Errorf("holders of %s: got %q, want %q", s.Parts[i].Name, got, want)
		}
	}
}

// Membership of a group is looked up in a directory, or in the processes of all leases.
func TestPolicy_LooksUpEachMemberOnce(t *testing.T) {
	calls := make(map[uint32]int)
	p := &policy{member: func(uid uint32, group string) bool {
		calls[uid]++
		return uid == 1000
	}}
	p.set(Limits{Groups: []GroupLimits{{Name: "course", Total: 31}}})
	r := Request{Want: placement.Want{Partitions: 1}}
	_, err := p.choose(withLeases(60), Caller{UID: 2000, Groups: []string{"course"}}, r)
	if err != nil || len(calls) != 2 || calls[1000] != 1 || calls[1001] != 1 {
		t.Errorf("calls by user: got %v, %v, want one for each of two users", calls, err)
	}
	if _, err = p.choose(withLeases(62), Caller{UID: 2000, Groups: []string{"course"}}, r); err == nil {
		t.Error("a lease that exceeds the limit of the group is granted")
	}
}

func BenchmarkAllocations(b *testing.B) {
	for _, n := range []int{0, 60} {
		s := withLeases(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				Allocations(s)
			}
		})
	}
}
