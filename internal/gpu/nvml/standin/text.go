package standin

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"dcm/internal/gpu/partition"
)

func (s State) text() string {
	var b strings.Builder
	line := func(word string, fields ...any) { fmt.Fprintln(&b, append([]any{word}, plain(fields)...)...) }
	line("driver", s.Driver)
	line("nvml", s.NVML)
	line("epoch", s.Epoch)
	line("loaded", s.Loaded)
	line("privileged", s.Privileged)
	line("held", s.Held)
	for _, g := range s.GPUs {
		node := g.Node
		if node == "" {
			node = "-"
		}
		line("gpu", g.Address, hex(g.Device), hex(g.Subsystem), g.Minor, g.UUID, g.Memory, g.MIG, g.Kept, g.Current, g.Pending,
			g.Resetless, g.Virtualization, g.Epoch, g.Busy, g.Lost, node, g.Name)
	}
	first := 0 // index of the GPU's first profile in the list of all
	for n, g := range s.GPUs {
		at := make(map[string]int)
		for i, p := range g.Profiles {
			at[p.Name] = first + i
			line("profile", n, p.Index, p.ID, p.Slices, p.Memory, p.Max, p.Size, strings.Trim(strings.ReplaceAll(fmt.Sprint(p.Starts), " ", ","), "[]"), p.Name)
		}
		first += len(g.Profiles)
		for _, i := range g.Instances {
			line("gi", n, i.ID, at[i.Profile], i.Start, i.Busy)
			for _, c := range i.Compute {
				line("ci", n, i.ID, c.ID, c.Slices, c.Start)
			}
		}
		for _, p := range g.Processes {
			line("process", n, p.PID, p.Memory, p.GI, p.CI, p.Graphics)
		}
	}
	for _, k := range s.Knobs {
		line("knob", k)
	}
	return b.String()
}

type hex uint32

func (h hex) String() string { return strconv.FormatUint(uint64(h), 16) }

// plain writes booleans as 0 and 1.
func plain(fields []any) []any {
	for i, f := range fields {
		if yes, ok := f.(bool); ok {
			fields[i] = 0
			if yes {
				fields[i] = 1
			}
		}
	}
	return fields
}

// reader returns the fields of a line one by one.
type reader struct {
	fields []string
	err    error
}

func (r *reader) word() string {
	if len(r.fields) == 0 {
		r.err = errors.New("a field is missing")
		return ""
	}
	f := r.fields[0]
	r.fields = r.fields[1:]
	return f
}

func (r *reader) number() int {
	n, err := strconv.Atoi(r.word())
	r.err = errors.Join(r.err, err)
	return n
}

func (r *reader) yes() bool { return r.number() != 0 }

func (r *reader) hex() uint32 {
	n, err := strconv.ParseUint(r.word(), 16, 32)
	r.err = errors.Join(r.err, err)
	return uint32(n)
}

func (r *reader) rest() string { return strings.Join(r.fields, " ") }

// read reads a state. It is empty if the file does not exist.
func read(file string) (State, error) {
	var s State
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("cannot read the state of the stand-in: %w", err)
	}
	defer f.Close()
	var names []string // of all profiles
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		r := &reader{fields: strings.Fields(lines.Text())}
		if len(r.fields) == 0 {
			continue
		}
		s.take(r, &names)
		if r.err != nil {
			return s, fmt.Errorf("%s:%d: %q: %w", file, n, lines.Text(), r.err)
		}
	}
	return s, lines.Err()
}

func (s *State) take(r *reader, names *[]string) {
	switch r.word() {
	case "driver":
		s.Driver = r.rest()
	case "nvml":
		s.NVML = r.rest()
	case "epoch":
		s.Epoch = r.number()
	case "loaded":
		s.Loaded = r.yes()
	case "privileged":
		s.Privileged = r.yes()
	case "held":
		s.Held = r.yes()
	case "gpu":
		s.GPUs = append(s.GPUs, r.gpu())
	case "knob":
		s.Knobs = append(s.Knobs, r.rest())
	case "profile":
		g, p := s.gpu(r), r.profile()
		g.Profiles = append(g.Profiles, p)
		*names = append(*names, p.Name)
	case "gi":
		g, i := s.gpu(r), Instance{ID: r.number()}
		if n := r.number(); n < len(*names) {
			i.Profile = (*names)[n]
		}
		i.Start, i.Busy = r.number(), r.number()
		g.Instances = append(g.Instances, i)
	case "ci":
		g, gi := s.gpu(r), r.number()
		c := Compute{ID: r.number(), Slices: r.number(), Start: r.number()}
		for n := range g.Instances {
			if g.Instances[n].ID == gi {
				g.Instances[n].Compute = append(g.Instances[n].Compute, c)
			}
		}
	case "process":
		g := s.gpu(r)
		g.Processes = append(g.Processes, Process{PID: r.number(), Memory: uint64(r.number()), GI: uint32(r.number()), CI: uint32(r.number()), Graphics: r.yes()})
	}
}

// gpu returns the GPU whose index is the next field.
func (s *State) gpu(r *reader) *GPU {
	n := r.number()
	if n < 0 || n >= len(s.GPUs) {
		r.err = errors.Join(r.err, fmt.Errorf("there is no GPU %d", n))
		return &GPU{}
	}
	return &s.GPUs[n]
}

func (r *reader) gpu() GPU {
	g := GPU{Address: partition.Address(r.word()), Device: r.hex(), Subsystem: r.hex(), Minor: r.number(), UUID: r.word(), Memory: r.number(),
		MIG: r.yes(), Kept: r.yes(), Current: r.yes(), Pending: r.yes(), Resetless: r.number(), Virtualization: r.number(),
		Epoch: r.number(), Busy: r.number(), Lost: r.yes(), Node: r.word()}
	if g.Node == "-" {
		g.Node = ""
	}
	g.Name = r.rest()
	return g
}

func (r *reader) profile() Profile {
	p := Profile{Index: r.number(), ID: r.number(), Slices: r.number(), Memory: r.number(), Max: r.number(), Size: r.number()}
	for _, s := range strings.Split(r.word(), ",") {
		n, err := strconv.Atoi(s)
		r.err = errors.Join(r.err, err)
		p.Starts = append(p.Starts, n)
	}
	p.Name = r.word()
	return p
}
