package configure

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"dcm/internal/app/cli/console"
	"dcm/internal/app/cli/nodemodel"
	"dcm/internal/engine/config"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/reservation"
	"dcm/internal/text"
)

// review holds what profiles are checked against.
type review struct {
	cfg    *config.Config
	gpus   []partition.GPU
	minors gpu.Minors
	name   func(string) string // replaces the invented addresses of the GPUs of a kind of node
}

// judge checks a profile against the GPUs and the reservations. It returns the GPUs with the profile.
func (r review) judge(con *console.Console, name string) ([]partition.GPU, error) {
	p, err := r.cfg.Lookup(name)
	if err != nil {
		return nil, err
	}
	after, _, err := nodemodel.Outcome(p, r.gpus)
	if err != nil {
		return nil, err
	}
	selected := name == r.cfg.Selected
	if err = errors.Join(r.after(con, after, selected), reservation.RoomToMake(r.cfg.Reservations, p, r.gpus), reservation.OthersOnDynamic(r.cfg.Reservations, p, r.gpus)); err != nil {
		return nil, err
	}
	if selected {
		for _, text := range append(reservation.BlockDynamic(r.cfg.Reservations, p, r.gpus, after), reservation.NothingToMake(p, r.gpus)...) {
			con.Warn(r.name(text))
		}
	}
	return after, nil
}

// profiles prints the profiles that fit, and names the others. Only the selected profile must fit. Without
// a selected profile, the current state of the GPUs must fit the reservations.
func (r review) profiles(con *console.Console, all bool) error {
	var failure error
	if r.cfg.Selected == "" {
		failure = r.after(con, r.gpus, true)
	}
	var others []misfit
	var sources []partition.Document
	t := con.NewTable("PROFILE", "PARTITIONS", "REMARK")
	for _, name := range r.cfg.Available(r.gpus) {
		mark := name
		if name == r.cfg.Selected {
			mark += " *"
		}
		after, err := r.judge(con, name)
		if err == nil {
			t.Row(mark, fmt.Sprint(partitions(after)), remarks(after, &sources))
			continue
		}
		one := newMisfit(name, err, r.name)
		if name == r.cfg.Selected {
			failure = fmt.Errorf("profile %s does not fit: %s", name, one.reason)
		}
		others = append(others, one)
	}
	t.Flush()
	printOthers(con, others, all)
	for _, d := range sources {
		if all {
			con.Printf("Source: %s\n", d)
		}
	}
	return failure
}

// misfit is a profile that does not fit the GPUs.
type misfit struct{ name, reason string }

// newMisfit removes the name of the profile from the reason.
func newMisfit(profile string, err error, name func(string) string) misfit {
	return misfit{profile, strings.TrimPrefix(name(err.Error()), fmt.Sprintf("profile %q does not fit this node: ", profile))}
}

// printOthers names the profiles that do not fit in one line. With all it prints the reason of each.
func printOthers(con *console.Console, others []misfit, all bool) {
	if len(others) == 0 {
		return
	}
	if !all {
		names := make([]string, len(others))
		for i, m := range others {
			names[i] = m.name
		}
		does := "profiles do"
		if len(others) == 1 {
			does = "profile does"
		}
		con.Printf("%d %s not fit these GPUs: %s (reasons: --all)\n", len(others), does, text.Few(names))
		return
	}
	t := con.NewTable("DOES NOT FIT", "REASON")
	for _, m := range others {
		first, rest, more := strings.Cut(m.reason, "\n")
		if more {
			first += fmt.Sprintf(" (and %d more)", strings.Count(rest, "\n")+1)
		}
		t.Row(m.name, first)
	}
	t.Flush()
}

// after checks the reservations against the GPUs. With warn it prints a warning about
// partitions that get no DRM minor.
func (r review) after(con *console.Console, gpus []partition.GPU, warn bool) error {
	short := r.minors.Shortage(gpus)
	if short != nil && warn {
		con.Warn(runstate.WithHint(r.name(short.Text), short.Hint))
	}
	return reservation.Room(r.cfg.Reservations, gpus, short)
}

func partitions(gpus []partition.GPU) int {
	n := 0
	for _, g := range gpus {
		n += g.Partitions()
	}
	return n
}

// remarks returns the vendor's caveats about the GPUs' modes, and adds their documents to
// sources.
func remarks(after []partition.GPU, sources *[]partition.Document) string {
	var list []string
	for _, r := range partition.Remarks(after) {
		list = append(list, r.Text)
		for _, d := range []partition.Document{r.Source, r.NotIn} {
			if d != (partition.Document{}) && !slices.Contains(*sources, d) {
				*sources = append(*sources, d)
			}
		}
	}
	return strings.Join(list, "; ")
}
