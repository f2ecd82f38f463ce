package histories

import (
	"maps"
	"slices"
	"time"

	"dcm/internal/engine/apply"
	"dcm/internal/engine/config"
	"dcm/internal/engine/runstate"
	"dcm/internal/exitcode"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// oneshot is the program of dcm-apply.service, dcm-change.service and dcm-gate.service, as package service has
// it.
func (p *process) oneshot() {
	switch p.program {
	case "dcm gate":
		p.awaitGate()
		p.exit(0)
	case "dcm change":
		p.change()
	default:
		p.exit(p.runOnce(nil))
	}
}

// awaitGate takes the lock of the gate.
func (p *process) awaitGate() {
	for got := false; !got; {
		if p.w.wait(p.ctx, p, func() bool { return !p.w.files.gateLock }) != nil {
			p.exit(exitcode.Transient)
			return
		}
		p.effect("lock the gate", func() { got = p.lock(&p.w.files.gateLock) })
	}
}

func (p *process) change() {
	w := p.w
	p.awaitGate()
	requested := &runstate.Change{}
	var left []string
	p.effect("read the state, and the units of the change", func() {
		if s := copied(w.files.state); s != nil && s.Boot == w.bootID() && s.Phase == runstate.Applying && s.Change != nil {
			requested = s.Change
		}
		for _, unit := range slices.Sorted(maps.Keys(requested.Stopped)) {
			s := w.pid1.Status(unit)
			if (s.Active == "active" || s.Active == "activating") && s.Invocation == requested.Stopped[unit] {
				left = append(left, unit)
			}
		}
	})
	if len(left) > 0 {
		p.exit(exitcode.Transient)
		return
	}
	p.exit(p.runOnce(requested))
}

// runOnce is a run. It returns the exit status.
func (p *process) runOnce(change *runstate.Change) int {
	w := p.w
	locked := false
	p.effect("lock", func() { locked = p.lock(&w.files.runLock) })
	if !locked {
		return exitcode.Transient
	}
	hw := newHardware(p)
	var cfg *config.Config
	var broken error
	var self runstate.Run
	half, unloaded := false, false
	p.effect("read what earlier runs have left", func() {
		last := copiedRun(w.files.run)
		self = runstate.Run{ID: p.invocation, Boot: w.bootID(), PID: p.pid, Totals: runstate.Since(last, w.bootID()), Idle: runstate.IdleSince(last, w.bootID())}
		half = apply.HalfReloaded(last, self.Boot)
		unloaded = half && !w.gpus.loaded()
		if half {
			self.Unloaded, self.UnloadedModules = !w.gpus.loaded(), last.UnloadedModules
		}
		self.Asked = runstate.ForRun(copied(w.files.state), last, self.Boot, func() time.Time { return w.began }, func() bool { return false })
		cfg, broken = w.effective()
	})
	rec := apply.NewRecorder(self, w.logger(p), func(r runstate.Run) {
		p.immediately("write the report", func() { w.files.run = copiedRun(&r) })
	})
	switch {
	case unloaded && change != nil:
		return exitcode.Transient
	case unloaded && (cfg == nil || cfg.Selected == ""):
		if err := apply.Load(p.ctx, loader{hw}, 3*time.Minute, rec); err != nil {
			return exitcode.Transient
		}
	}
	if cfg == nil {
		rec.Refuse("", runstate.Error{Text: broken.Error()})
		return exitcode.Config
	}
	if cfg.Selected == "" {
		rec.Nothing()
		p.publish(rec, cfg)
		return 0
	}
	rec.Source(cfg.Source, "")
	opt := apply.Options{
		Rollback: cfg.OnFailure == config.Rollback, EachGPU: cfg.UnitOfChange == config.GPU, ReloadDriver: cfg.ReloadDriver,
		DeviceTimeout: cfg.DeviceTimeout, StepTimeout: time.Minute, ReloadTimeout: 3 * time.Minute, SettleDelay: 1500 * time.Millisecond,
		Load: half,
	}
	if change != nil {
		opt.May, opt.Later, opt.Continuing = change.Concerns, change.Postpones, change.Kept
	}
	run := apply.Run(p.ctx, hw.forRun(), cfg.Profile, opt, rec)
	p.publish(rec, cfg)
	switch {
	case run.Result.OK() || run.Result == runstate.Round:
		return 0
	case run.Error.Transient:
		return exitcode.Transient
	}
	return exitcode.Permanent
}

// publish writes the list of partitions and releases clients, as the end of a run does.
func (p *process) publish(rec *apply.Recorder, cfg *config.Config) {
	w := p.w
	run := rec.Run()
	p.effect("write the list of partitions", func() { w.files.partitions = w.list(cfg) })
	if run.Result.OK() {
		_ = withheldFiles{p}.Clear()
		return
	}
	_ = withheldFiles{p}.Keep(func(_ string, a partition.Address) bool {
		i := slices.IndexFunc(run.GPUs, func(g runstate.GPU) bool { return g.Address == a })
		return i < 0 || !run.GPUs[i].Skipped && (run.GPUs[i].Error != "" || !run.GPUs[i].Now.Same(run.GPUs[i].Want))
	})
}

// list returns the partitions of the present GPUs, with those of each client that has GPUs of its own. The
// caller holds mu.
func (w *world) list(cfg *config.Config) *runstate.Partitions {
	out := &runstate.Partitions{Boot: w.bootID(), Modes: make(map[string]string)}
	all := w.gpus.addresses()
	for _, d := range w.gpus.devices() {
		out.Modes[string(d.Address)] = d.Shape().Key()
		for _, part := range d.Parts {
			out.Parts = append(out.Parts, runstate.Part{Name: runstate.PartName(d.Address, part.Index), GPU: d.Address, Index: part.Index})
		}
	}
	for _, r := range cfg.Reservations {
		one := runstate.Reservation{Name: r.Name, Unit: r.Unit, Asks: r.Asks()}
		for _, i := range w.plan.gpusOf(r.Unit) {
			for _, part := range out.Parts {
				if part.GPU == all[i] {
					one.Partitions = append(one.Partitions, part.Name)
				}
			}
		}
		out.Reservations = append(out.Reservations, one)
	}
	return out
}

// listed reports whether the list of partitions is of the present GPUs. The caller holds mu.
func (w *world) listed() bool {
	if w.files.partitions == nil || w.files.partitions.Boot != w.bootID() {
		return false
	}
	return !slices.ContainsFunc(w.gpus.devices(), func(d gpu.Device) bool {
		return w.files.partitions.Modes[string(d.Address)] != d.Shape().Key()
	})
}
