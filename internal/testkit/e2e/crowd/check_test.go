package crowd

import (
	"github.com/google/go-cmp/cmp"
	"maps"
	"slices"
	"strings"
	"testing"

	"dcm/internal/engine/runstate"
)

const (
	one = "dcm-lease-0-00000001.scope"
	two = "dcm-share2-0-00000002.scope"
	its = "dcm-share2-0-00000003.scope"
)

// seen is a look at four partitions: the first is alpha's alone, the second a lease's,
// two share the third, and the fourth is free.
func seen() Look {
	l := Look{
		Parts: runstate.Partitions{Reservations: []runstate.Reservation{{Name: "alpha", Unit: "alpha.service", Wants: 1, Partitions: []string{"a"}, Exclusive: true}}},
		Links: map[string][]string{"alpha": {"/dev/dri/renderDa"}},
		Units: map[string][]string{
			"alpha.service": {common, "/dev/dri/renderDa"}, one: {common, "/dev/dri/renderDb"}, two: {common, "/dev/dri/renderDc"}, its: {common, "/dev/dri/renderDc"},
		},
		Procs: map[string][]int{one: {1}, two: {2}, its: {3}},
		Opens: []string{common, "/dev/dri/renderDb", "/dev/dri/renderDc", "/dev/dri/renderDd"},
		Free:  1, Said: "1 of 4 is free",
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		l.Parts.Parts = append(l.Parts.Parts, runstate.Part{Name: name, Render: "/dev/dri/renderD" + name})
	}
	for i, unit := range []string{one, two, its} {
		l.Holders = append(l.Holders, Holder{i + 1, Said{"/dcm.slice/" + unit, slices.Clone(l.Units[unit])}})
	}
	return l
}

func TestWhatIsWrongIsSeen(t *testing.T) {
	tests := map[string]struct {
		spoil func(*Look)
		want  string // "" for nothing
	}{
		"all is well":             {func(*Look) {}, ""},
		"a partition has two":     {func(l *Look) { l.Units["dcm-lease-0-00000009.scope"] = []string{"/dev/dri/renderDb"} }, "b has ["},
		"a third shares":          {func(l *Look) { l.Units["dcm-share2-0-00000009.scope"] = []string{"/dev/dri/renderDc"} }, "c has ["},
		"others share by three":   {func(l *Look) { rename(l, its, "dcm-share3-0-00000009.scope") }, "c has ["},
		"a lease of what is kept": {func(l *Look) { l.Units[one] = append(l.Units[one], "/dev/dri/renderDa") }, "a is reserved for alpha, and has ["},
		"lost to dcm":             {func(l *Look) { l.Free, l.Said = 0, "0 of 4 are free" }, "1 are free, and dcm says: 0 of 4 are free"},
		"lost to a scope":         {func(l *Look) { l.Holders = l.Holders[1:]; l.Procs[one] = nil }, "has the processes [], none of which is known"},
		"out of its scope":        {func(l *Look) { l.Procs[one] = []int{4} }, "was made for process 1 and has [4]"},
		"a scope without a unit":  {func(l *Look) { delete(l.Units, one) }, "which is no unit of PID 1's"},
		"it opens more":           {func(l *Look) { l.Holders[0].Opens = append(l.Holders[0].Opens, "/dev/dri/renderDd") }, "and its process opens ["},
		"it opens less":           {func(l *Look) { l.Holders[0].Opens = l.Holders[0].Opens[:1] }, "and its process opens ["},
		"open for root":           {func(l *Look) { l.Opens = append(l.Opens, "/dev/dri/renderDa") }, "/dev/dri/renderDa: exclusive true"},
		"closed to root":          {func(l *Look) { l.Opens = l.Opens[:3] }, "/dev/dri/renderDd: exclusive false"},
		"a link elsewhere":        {func(l *Look) { l.Links["alpha"] = []string{"/dev/dri/renderDd"} }, "its links lead to ["},
		"a reservation unmet":     {func(l *Look) { l.Parts.Reservations[0].Wants = 2 }, "reservation alpha has [a] of 2"},
		"its unit is down":        {func(l *Look) { delete(l.Units, "alpha.service") }, "is up false"},
		"dcm lists another":       {func(l *Look) { l.Listed = map[string][]string{"a": {one}} }, "and dcm says [" + one},
		"who waits could have it": {func(l *Look) { l.Waiting = 1 }, "1 are free, and 1 processes wait"},
		"a partition is missing":  {func(l *Look) { l.Parts.Parts = l.Parts.Parts[:3] }, "there are 3 partitions, want 4"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			l := seen()
			tt.spoil(&l)
			got := strings.Join(l.Problems(Batch{Parts: 4, Most: 1}), "\n")
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("problems:\n%s\nwant %q", got, tt.want)
			}
		})
	}
}

func rename(l *Look, from, to string) {
	l.Units = maps.Clone(l.Units)
	l.Units[to] = l.Units[from]
	delete(l.Units, from)
}

func TestFollow_LeavesOutLinksThatAreNotThere(t *testing.T) {
	units := map[string][]string{"alpha.service": {"/dev/dcm/alpha/render1", "/dev/dcm/alpha/render0", "/dev/dri/renderD130", "/dev/kfd"}}
	follow(units, map[string][]string{"alpha": {"/dev/dri/renderD136"}})
	if diff := cmp.Diff([]string{"/dev/dri/renderD136", "/dev/dri/renderD130", "/dev/kfd"}, units["alpha.service"]); diff != "" {
		t.Errorf("alpha may open (-want +got):\n%s", diff)
	}
}
