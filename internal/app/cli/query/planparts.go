package query

import (
	"slices"
	"strings"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/apply"
	"dcm/internal/engine/daemon"
	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/status"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/sorting"
	"dcm/internal/text"
)

// plannedPart is a partition of a GPU that a plan changes.
type plannedPart struct {
	Name  string            `json:"name"` // "0000:05:00.0-3"
	GPU   partition.Address `json:"gpu"`
	Mode  string            `json:"mode"`  // MIG profile; "" for a partition of an AMD GPU
	Stays bool              `json:"stays"` // with its UUID and device nodes
	Users []string          `json:"users"` // units that have it reserved or open; processes of no unit by their command
}

// plannedParts returns the partitions of the GPUs that the steps change, with their users as in
// the account.
func plannedParts(d apply.Difference, a status.Account) []plannedPart {
	out := []plannedPart{}
	for _, c := range gpu.Changes(d.Steps, d.Devices) {
		for i, p := range slices.Concat(c.ChangedParts, c.KeptParts) {
			name := runstate.PartName(c.GPU, p.Index)
			out = append(out, plannedPart{name, c.GPU, p.Profile, i >= len(c.ChangedParts), usersOf(name, p.RenderNode(), a)})
		}
	}
	return out
}

// usersOf returns the units that have a partition reserved or its own node open.
func usersOf(name, node string, a status.Account) []string {
	users := []string{}
	add := func(user string) {
		if user != "" && !slices.Contains(users, user) {
			users = append(users, user)
		}
	}
	for _, r := range a.Reserved {
		if slices.Contains(r.Partitions, name) {
			add(r.Unit)
		}
	}
	for _, h := range a.Holders {
		if !slices.Contains(h.Devices, node) && !slices.Contains(h.Leased, node) {
			continue
		}
		if add(h.Unit); h.Unit == "" {
			add(h.Command)
		}
	}
	return users
}

// printParts prints the partitions with users, those with the same users in one line. The others matter to no unit.
func printParts(con *console.Console, parts []plannedPart) {
	for i, verb := range []string{"change or disappear", "stay"} {
		used := slices.DeleteFunc(slices.Clone(parts), func(p plannedPart) bool { return p.Stays != (i == 1) || len(p.Users) == 0 })
		if len(used) == 0 {
			continue
		}
		con.Printf("Partitions in use or reserved that %s:\n", verb)
		for _, alike := range sorting.Groups(used, func(p plannedPart) string { return p.Mode + "\n" + strings.Join(p.Users, "\n") }) {
			first := alike[0]
			var names []string
			for _, p := range alike {
				names = append(names, p.Name)
			}
			con.Labelled("  ", strings.TrimSpace(text.Partitions(names)+" "+first.Mode)+": "+strings.Join(first.Users, ", "))
		}
	}
}

// printRounds prints the rounds of a change, and why one of them would wait.
func printRounds(con *console.Console, rounds []daemon.Round, waits *runstate.Error) {
	if len(rounds) > 0 {
		con.Println("The GPUs would change in these rounds, and these units would be restarted:")
	}
	for i, r := range rounds {
		gpus := make([]string, len(r.GPUs))
		for j, a := range r.GPUs {
			gpus[j] = string(a)
		}
		units := strings.Join(r.Units, ", ")
		if units == "" {
			units = "no unit"
		}
		con.Printf("  %d. %s: %s\n", i+1, strings.Join(gpus, ", "), units)
	}
	if waits != nil {
		con.Println(con.Yellow("It would wait now: ") + console.Indent(waits.Message()))
	}
}
