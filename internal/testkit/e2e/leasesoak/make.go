package leasesoak

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/made"
	"dcm/internal/gpu/nvml/standin"
	"dcm/internal/gpu/partition"
)

// stateFile is the state of the stand-in for libnvidia-ml. It has the MIG instances of the simulated GPUs.
const stateFile = "/var/lib/dcm-sim/nvml"

// MakeObservation is the state of a node whose leases make their partitions. Units and Holders have only
// the nodes of partitions.
type MakeObservation struct {
	Observation
	Claims   []made.Name
	Hardware []string // "0000:05:00.0 CPX", "0000:41:00.0 3g.40gb@4", without dcm
}

// observeMake reads the state. It fails during a change, and can be repeated.
func observeMake(ctx context.Context, c *clients, full bool) (l MakeObservation, err error) {
	var errs [4]error
	l.Claims, errs[0] = made.Claims{Dir: made.Dir}.List()
	l.Observation, errs[1] = observeLeases(ctx, c)
	l.Hardware, errs[2] = hardware()
	if full {
		l.Listed, errs[3] = listed(ctx)
	}
	for unit, nodes := range l.Units {
		for i, node := range nodes {
			if to, err := os.Readlink(node); err == nil {
				nodes[i] = to
			}
		}
		if l.Units[unit] = slices.DeleteFunc(nodes, isShared); !isLease(unit) {
			delete(l.Units, unit)
		}
	}
	return l, errors.Join(errs[:]...)
}

// isShared reports whether a node is not one of a partition's own.
func isShared(node string) bool {
	const instance = "/dev/nvidia-caps/nvidia-cap"
	return !strings.HasPrefix(node, "/dev/dri/renderD") && !strings.HasPrefix(node, made.Dir) &&
		(!strings.HasPrefix(node, instance) || node == instance+"1" || node == instance+"2")
}

// hardware returns the compute modes and MIG instances of the simulated GPUs.
func hardware() ([]string, error) {
	var out []string
	files, err := filepath.Glob("/sys/bus/pci/devices/*/current_compute_partition")
	for _, file := range files {
		mode, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		out = append(out, filepath.Base(filepath.Dir(file))+" "+strings.TrimSpace(string(mode)))
	}
	if _, missing := os.Stat(stateFile); err != nil || errors.Is(missing, fs.ErrNotExist) {
		return out, err
	}
	s, err := standin.Read(stateFile)
	for _, g := range s.GPUs {
		for _, i := range g.Instances {
			out = append(out, instance(g.Address, i.Profile, i.Start))
		}
	}
	return out, err
}

func instance(gpu partition.Address, profile string, start int) string {
	return fmt.Sprintf("%s %s@%d", gpu, profile, start)
}

// Problems returns the problems of an observation. Some problems disappear when the end of a process is
// noticed, and a leftover of a killed process after the grace period.
func (l MakeObservation) Problems(b Batch) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	want := slices.Clone(b.Rest)
	for _, n := range l.Claims {
		if !n.IsMode() {
			want = append(want, instance(n.GPU, n.Profile, n.Start))
		} else if i := slices.Index(want, string(n.GPU)+" "+string(n.Rest)); i >= 0 {
			want[i] = string(n.GPU) + " " + n.Profile
		}
		if _, used := l.Units[n.Lease]; !n.IsMode() && !used || b.End {
			add("%s: want no claim without a lease", n)
		}
	}
	if !equal(want, l.Hardware) {
		add("GPUs: want %s at rest and by the claims, got %s", want, l.Hardware)
	}
	if listed := l.published(); !equal(listed, l.Hardware) {
		add("partitions: want those of %s, dcm publishes %s", l.Hardware, listed)
	}
	for unit, nodes := range l.Units {
		for _, node := range nodes {
			if all := l.holdersOf(node); len(all) > 1 {
				add("%s is given to %s", node, all)
			}
		}
		if !slices.ContainsFunc(l.Claims, func(n made.Name) bool { return l.belongs(n, unit) }) {
			add("%s has nodes %s without a claim", unit, nodes)
		}
	}
	if l.Waiting > 0 && len(l.Units) == 0 && b.Serve {
		add("no lease is left, but %d processes wait", l.Waiting)
	}
	l.scopes(add)
	l.lists(add)
	return out
}

// published returns what partitions.json says of the hardware.
func (l MakeObservation) published() []string {
	var out []string
	for _, p := range l.Parts.Parts {
		_, kind, _ := strings.Cut(p.Kind, " ")
		if p.Kind == partition.KindOf(partition.NVIDIA, kind) {
			out = append(out, instance(p.GPU, kind, p.Index))
			continue
		}
		mode, _, _ := strings.Cut(kind, "/")
		if text := string(p.GPU) + " " + mode; !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}

// belongs reports whether a claim is that of a lease.
func (l MakeObservation) belongs(n made.Name, unit string) bool {
	if !n.IsMode() {
		return n.Lease == unit
	}
	return slices.ContainsFunc(l.Parts.Parts, func(p runstate.Part) bool { return p.GPU == n.GPU && slices.Contains(l.Units[unit], p.Render) })
}

// lists compares the holders that dcm prints.
func (l MakeObservation) lists(add func(string, ...any)) {
	for _, p := range l.Parts.Parts {
		have := l.holdersOf(p.Render)
		if said := slices.DeleteFunc(slices.Clone(l.Listed[p.Name]), func(unit string) bool { return !isLease(unit) }); l.Listed != nil && !slices.Equal(said, have) {
			add("%s: want the holders %s, dcm prints %s", p.Name, have, said)
		}
	}
}

// serveAll ends leases until no process waits for one.
func serveAll(ctx context.Context, c *clients) error {
	for len(c.waiting()) > 0 {
		for _, p := range c.holders() {
			if err := p.gone(ctx, p.kill()); err != nil {
				return err
			}
		}
		if err := delay(ctx, probeInterval); err != nil {
			return fmt.Errorf("%d processes wait, and no lease is left: %w", len(c.waiting()), err)
		}
	}
	return nil
}
