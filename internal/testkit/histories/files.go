package histories

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"dcm/internal/engine/config"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
)

// files are the files that dcm's processes share. Each write replaces a file, as package atomicfile does.
type files struct {
	admin     string          // /etc/dcm/dcm.toml
	profile   string          // that admin selects
	options   map[string]bool // what differs from the first configuration, see [files.toggle]
	selection string          // the selection until reboot; "": there is none

	notes      []runstate.Note
	state      *runstate.State
	run        *runstate.Run
	partitions *runstate.Partitions
	lastGood   *config.Config
	withheld   map[string][]partition.Address
	generated  map[string]string // the generator's drop-ins

	runLock, gateLock bool
	paths             map[string]bool // of path units and conditions
}

// reboot removes what is in /run. The caller holds mu.
func (f *files) reboot() {
	*f = files{admin: f.admin, profile: f.profile, options: f.options, generated: make(map[string]string), withheld: make(map[string][]partition.Address), paths: make(map[string]bool)}
}

// toggle changes a part of the configuration, or undoes the change: "require", "unit-of-change", "report" (drift is
// only reported), or the name of a unit that is a client.
func (f *files) toggle(option string) {
	if f.options[option] {
		delete(f.options, option)
	} else {
		f.options[option] = true
	}
}

// edit writes the configuration. The caller holds mu.
func (w *world) edit() {
	w.files.admin = w.plan.config(w.files.profile, w.files.options)
	w.configEvent()
}

// copied returns a value as it is read back from its file.
func copied[T any](v *T) *T {
	if v == nil {
		return nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	out := new(T)
	if err := json.Unmarshal(text, out); err != nil {
		panic(err)
	}
	return out
}

// copiedRun is copied for a report, which a run writes at each step.
func copiedRun(r *runstate.Run) *runstate.Run {
	if r == nil {
		return nil
	}
	out := *r
	out.GPUs, out.Steps, out.Holders = slices.Clone(r.GPUs), slices.Clone(r.Steps), slices.Clone(r.Holders)
	out.Warnings, out.UnloadedModules = slices.Clone(r.Warnings), slices.Clone(r.UnloadedModules)
	out.Idle, out.Totals.Runs = maps.Clone(r.Idle), maps.Clone(r.Totals.Runs)
	return &out
}

// parsed are configurations by their text. A configuration is a function of its text.
type parsed struct {
	mu   sync.Mutex
	have map[string]loaded
}

type loaded struct {
	cfg *config.Config
	err error
}

func (p *parsed) load(admin, selection string) (*config.Config, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := admin + "\x00" + selection
	if l, ok := p.have[key]; ok && !strings.Contains(selection, config.KeyConfirmBy) { // otherwise it depends on the time
		return l.cfg, l.err
	}
	paths := config.DefaultPaths("/nonexistent")
	paths = paths.With(paths.Admin, admin)
	if selection != "" {
		paths = paths.With(paths.RuntimeSelection(), selection)
	}
	cfg, err := config.Load(paths)
	if p.have == nil || len(p.have) > 5000 {
		p.have = make(map[string]loaded)
	}
	p.have[key] = loaded{cfg, err}
	return cfg, err
}

// config returns the configuration on disk. The caller holds mu.
func (w *world) config() (*config.Config, error) {
	return w.plan.parsed.load(w.files.admin, w.files.selection)
}

// effective returns the configuration on disk, or the last good one. The caller holds mu.
func (w *world) effective() (cfg *config.Config, broken error) {
	cfg, err := w.config()
	if err != nil && w.files.lastGood != nil {
		return w.files.lastGood, err
	}
	return cfg, err
}

// untilReboot is the text of a selection until reboot, as package selection writes it.
func untilReboot(profile, instead string) string {
	return "profile = \"" + profile + "\"\ninstead = \"" + instead + "\"\n"
}

// noteFiles are the notes of commands, as the daemon accesses them. They implement [daemon.Notes].
type noteFiles struct{ p *process }

func (f noteFiles) Read() (out []runstate.Note) {
	w := f.p.w
	f.p.effect("read the notes", func() {
		for _, n := range w.files.notes {
			sender := w.alive(func(p *process) bool { return p.pid == n.Asked.Who.PID })
			if sender != nil || time.Since(n.Time) <= runstate.AnnouncementTTL {
				out = append(out, *copied(&n))
			}
		}
	})
	return out
}

func (f noteFiles) Forget(n runstate.Note) {
	f.p.effect("remove a note", func() { f.p.w.files.notes = slices.DeleteFunc(f.p.w.files.notes, n.Same) })
}

// withheldFiles are the withheld clients, as a process accesses them. They implement [daemon.WithheldClients].
type withheldFiles struct{ p *process }

func (f withheldFiles) Read() (out map[string][]partition.Address, err error) {
	f.p.effect("read withheld clients", func() { out = *copied(&f.p.w.files.withheld) })
	return out, nil
}

func (f withheldFiles) Add(clients map[string][]partition.Address) error {
	if len(clients) == 0 {
		return nil
	}
	f.p.effect("withhold clients", func() {
		for unit, gpus := range clients {
			f.p.w.files.withheld[unit] = append(f.p.w.files.withheld[unit], gpus...)
		}
	})
	return nil
}

func (f withheldFiles) Keep(keep func(unit string, gpu partition.Address) bool) error {
	f.p.effect("release clients", func() {
		all := f.p.w.files.withheld
		for unit, gpus := range all {
			var left []partition.Address
			for _, a := range gpus {
				if keep(unit, a) {
					left = append(left, a)
				}
			}
			if all[unit] = left; len(left) == 0 {
				delete(all, unit)
			}
		}
	})
	return nil
}

func (f withheldFiles) Clear() error {
	f.p.effect("release all clients", func() { clear(f.p.w.files.withheld) })
	return nil
}

var errNoLastGood = errors.New("there is no last good configuration")
