package leasesoak

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/runstate"
)

const (
	one = "dcm-lease-0-00000001.scope"
	two = "dcm-share2-0-00000002.scope"
	its = "dcm-share2-0-00000003.scope"
)

// seen is an observation of four partitions: alpha has the first exclusively, a lease the
// second, two leases share the third, and the fourth is free.
func seen() Observation {
	l := Observation{
		Parts: runstate.Partitions{Reservations: []runstate.Reservation{{Name: "alpha", Unit: "alpha.service", Wants: 1, Partitions: []string{"a"}, Exclusive: true}}},
		Links: map[string][]string{"alpha": {"/dev/dri/renderDa"}},
		Units: map[string][]string{
			"alpha.service": {common, "/dev/dri/renderDa"}, one: {common, "/dev/dri/renderDb"}, two: {common, "/dev/dri/renderDc"}, its: {common, "/dev/dri/renderDc"},
		},
		Procs: map[string][]int{one: {1}, two: {2}, its: {3}},
		Opens: []string{common, "/dev/dri/renderDb", "/dev/dri/renderDc", "/dev/dri/renderDd"},
		Free:  1, Message: "1 of 4 is free",
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		l.Parts.Parts = append(l.Parts.Parts, runstate.Part{Name: name, Render: "/dev/dri/renderD" + name})
	}
	for i, unit := range []string{one, two, its} {
		l.Holders = append(l.Holders, Holder{i + 1, Report{"/dcm.slice/" + unit, slices.Clone(l.Units[unit])}})
	}
	return l
}

func TestProblems(t *testing.T) {
	tests := map[string]struct {
		spoil func(*Observation)
		want  string // "" for nothing
	}{
		"no problem":                        {func(*Observation) {}, ""},
		"two holders":                       {func(l *Observation) { l.Units["dcm-lease-0-00000009.scope"] = []string{"/dev/dri/renderDb"} }, "b is held by ["},
		"third sharer":                      {func(l *Observation) { l.Units["dcm-share2-0-00000009.scope"] = []string{"/dev/dri/renderDc"} }, "c is held by ["},
		"different number of sharers":       {func(l *Observation) { rename(l, its, "dcm-share3-0-00000009.scope") }, "c is held by ["},
		"lease of a reserved partition":     {func(l *Observation) { l.Units[one] = append(l.Units[one], "/dev/dri/renderDa") }, "a is reserved for alpha, but held by ["},
		"free for the kernel alone":         {func(l *Observation) { l.Free, l.Message = 0, "0 of 4 are free" }, "free partitions: want 1, dcm prints: 0 of 4 are free"},
		"scope without a process":           {func(l *Observation) { l.Holders = l.Holders[1:]; l.Procs[one] = nil }, "has no known process (found [])"},
		"process outside its scope":         {func(l *Observation) { l.Procs[one] = []int{4} }, "processes of " + one + ": want 1, got [4]"},
		"cgroup without a unit":             {func(l *Observation) { delete(l.Units, one) }, "which PID 1 does not list"},
		"process opens more":                {func(l *Observation) { l.Holders[0].Opens = append(l.Holders[0].Opens, "/dev/dri/renderDd") }, "its process opens ["},
		"process opens less":                {func(l *Observation) { l.Holders[0].Opens = l.Holders[0].Opens[:1] }, "its process opens ["},
		"exclusive partition open for root": {func(l *Observation) { l.Opens = append(l.Opens, "/dev/dri/renderDa") }, "can open it: true, exclusive: true"},
		"free partition closed for root":    {func(l *Observation) { l.Opens = l.Opens[:3] }, "can open it: false, exclusive: false"},
		"link to another node":              {func(l *Observation) { l.Links["alpha"] = []string{"/dev/dri/renderDd"} }, "links of reservation alpha: want ["},
		"unmet reservation":                 {func(l *Observation) { l.Parts.Reservations[0].Wants = 2 }, "reservation alpha: want 2 partitions, got [a]"},
		"unit of a reservation inactive":    {func(l *Observation) { delete(l.Units, "alpha.service") }, "active false"},
		"dcm prints another holder":         {func(l *Observation) { l.Listed = map[string][]string{"a": {one}} }, "dcm prints [" + one},
		"waiter for a free partition":       {func(l *Observation) { l.Waiting = 1 }, "1 partitions are free, but 1 processes wait"},
		"missing partition":                 {func(l *Observation) { l.Parts.Parts = l.Parts.Parts[:3] }, "partitions: want 4, got 3"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			l := seen()
			tt.spoil(&l)
			got := strings.Join(l.Problems(Batch{Parts: 4, Largest: 1}), "\n")
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("problems: want %q, got:\n%s", tt.want, got)
			}
		})
	}
}

func rename(l *Observation, from, to string) {
	l.Units = maps.Clone(l.Units)
	l.Units[to] = l.Units[from]
	delete(l.Units, from)
}

func TestFollow_MissingLink(t *testing.T) {
	units := map[string][]string{"alpha.service": {"/dev/dcm/alpha/render1", "/dev/dcm/alpha/render0", "/dev/dri/renderD130", "/dev/kfd"}}
	follow(units, map[string][]string{"alpha": {"/dev/dri/renderD136"}})
	if diff := cmp.Diff([]string{"/dev/dri/renderD136", "/dev/dri/renderD130", "/dev/kfd"}, units["alpha.service"]); diff != "" {
		t.Errorf("nodes of alpha (-want +got):\n%s", diff)
	}
}
