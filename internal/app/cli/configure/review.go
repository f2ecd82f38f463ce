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
)

// review holds what profiles are checked against.
type review struct {
	cfg    *config.Config
	gpus   []partition.GPU
	minors gpu.Minors
	name   func(string) string // replaces the invented addresses of the GPUs of a kind of node
}

// profiles prints the result of each profile. Only the selected profile must fit. Without
// a selected profile, the current state of the GPUs must fit the reservations.
func (r review) profiles(con *console.Console) error {
	var failure error
	if r.cfg.Selected == "" {
		failure = r.after(con, r.gpus, true)
	}
	var sources []partition.Document
	t := con.NewTable("PROFILE", "FITS", "PARTITIONS", "REMARK")
	for _, profile := range r.cfg.Available(r.gpus) {
		selected := profile == r.cfg.Selected
		mark := profile
		if selected {
			mark += " *"
		}
		p, _ := r.cfg.Lookup(profile)
		after, _, err := nodemodel.Outcome(p, r.gpus)
		if err == nil {
			err = errors.Join(r.after(con, after, selected), reservation.RoomToMake(r.cfg.Reservations, p, r.gpus), reservation.OthersOnDynamic(r.cfg.Reservations, p, r.gpus))
		}
		if err == nil && selected {
			for _, text := range reservation.BlockDynamic(r.cfg.Reservations, p, r.gpus, after) {
				con.Warn(r.name(text))
			}
		}
		if err == nil {
			t.Row(mark, "yes", fmt.Sprint(partitions(after)), remarks(after, &sources))
			continue
		}
		text := strings.TrimPrefix(r.name(err.Error()), fmt.Sprintf("profile %q does not fit this node: ", profile)) // the row has the name
		if selected {
			failure = errors.New(text)
		}
		first, rest, more := strings.Cut(text, "\n")
		if more {
			first += fmt.Sprintf(" (and %d more)", strings.Count(rest, "\n")+1)
		}
		t.Row(mark, "no", "-", first)
	}
	t.Flush()
	for _, d := range sources {
		con.Printf("Source: %s\n", d)
	}
	return failure
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
