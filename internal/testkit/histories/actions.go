package histories

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"dcm/internal/app/plan"
	"dcm/internal/engine/apply"
	"dcm/internal/engine/config"
	"dcm/internal/engine/daemon"
	"dcm/internal/engine/runstate"
	"dcm/internal/linux/unitname"
	"dcm/internal/testkit/pid1"
)

// drifter is a program that sets modes, and is not dcm's.
const drifter = "other"

// act makes one action of a history, such as "apply cpx --rolling".
func (w *world) act(text string) error {
	words := strings.Fields(text)
	if len(words) == 0 {
		return nil
	}
	argument := strings.Join(words[1:], " ")
	if words[0] == "wait" {
		d, err := time.ParseDuration(argument)
		time.Sleep(d)
		return err
	}
	time.Sleep(w.jitter("action", text, w.actions)) // no two things happen at the same time
	var err error
	w.do(func() {
		w.actions++
		w.note("action", text)
		err = w.make(words[0], argument)
	})
	return err
}

// make makes an action that takes no time. The caller holds mu.
func (w *world) make(verb, argument string) error {
	unit := argument
	if !strings.Contains(unit, ".") {
		unit += ".service"
	}
	switch verb {
	case "use":
		if strings.Contains(argument, "--confirm") {
			return w.useUnconfirmed(argument)
		}
		w.checks.commanded(false)
		w.command("dcm use "+argument, &runstate.Selection{Profile: argument}, func() {
			w.files.profile, w.files.selection = argument, ""
			w.edit()
		})
	case "apply":
		return w.apply(argument)
	case "confirm":
		w.confirm()
	case "edit":
		switch argument {
		case "broken":
			w.files.admin += "\nbroken = ["
		case "comment":
			w.files.admin += "\n# a comment"
		default:
			w.checks.commanded(false)
			w.files.profile = argument
			w.edit()
		}
		w.configEvent()
	case "option":
		w.checks.commanded(false)
		w.files.toggle(argument)
		w.edit()
	case "start":
		w.checks.start(unit)
		_, err := w.pid1.Request("start", unit, "replace")
		return err
	case "stop":
		w.checks.stop(unit)
		_, err := w.pid1.Request("stop", unit, "replace")
		return err
	case "restart":
		_, err := w.pid1.Request("restart", unit, "replace")
		return err
	case "reload":
		if p := w.theDaemon(); p != nil {
			go p.deliver("hangup", w.actions, func() bool { return post(p.events.hangup, os.Signal(syscall.SIGHUP)) })
		}
	case "fail":
		w.checks.failed(unit)
		if p := w.alive(func(p *process) bool { return p.unit == unit }); p != nil {
			w.kill(p, 9)
		}
	case "kill":
		return w.schedule(argument)
	case "arm":
		w.armed[unit] = true
	case "connect":
		w.pid1.Connect(argument)
	case "hold":
		p := w.newProcess("", "job")
		if p.holder = true; p.open(nil) != nil {
			w.finish(p, 1, 0)
		}
	case "release":
		if p := w.alive(func(p *process) bool { return p.holder }); p != nil {
			w.finish(p, 0, 0)
		}
	case "drift":
		p := w.newProcess("", drifter)
		go func() {
			p.effect("switch", func() {})
			_ = w.gpus.SetCompute(context.Background(), w.gpus.addresses()[0], argument)
			_ = p.tryEffect("switched", func() { w.deviceEvent() })
			p.exit(0)
		}()
	case "fault":
		return w.gpus.fault(argument)
	case "vanish", "appear":
		return w.hotplug(verb, argument)
	case "bus":
		return w.loseBus(argument)
	case "pid1":
		return w.replacePID1(argument)
	case "reboot":
		w.reboot()
	default:
		return fmt.Errorf("no action %q", verb)
	}
	return nil
}

// selects returns the selection of dcm apply, nil if it makes none.
func selects(cfg *config.Config, profile string, rolling bool) *runstate.Selection {
	switch {
	case profile == "--clear" && cfg != nil:
		profile = cfg.Persistent
	case profile == "" && rolling && cfg != nil:
		profile = cfg.Selected
	case profile == "":
		return nil
	}
	return &runstate.Selection{Profile: profile, Rolling: rolling}
}

// refuses reports whether dcm apply refuses a selection before it writes anything.
func (w *world) refuses(cfg *config.Config, s runstate.Selection) bool {
	if cfg == nil || s.Profile != "" && !slices.Contains(cfg.Names(), s.Profile) || s.Rolling && !cfg.Rounds() {
		return true
	}
	if !s.Rolling || s.Profile == "" {
		return false
	}
	profile, err := cfg.Lookup(s.Profile)
	if err != nil {
		return true
	}
	d, err := apply.Compare(w.gpus.devices(), profile)
	return err != nil || len(d.Steps) > 0 && plan.ScopeOf(w.files.partitions, cfg, d).Inseparable() != nil
}

func (w *world) apply(argument string) error {
	profile, rolling := strings.CutSuffix(argument, "--rolling")
	profile = strings.TrimSpace(profile)
	cfg, _ := w.effective()
	s := selects(cfg, profile, rolling)
	if _, broken := w.config(); s != nil && (broken != nil || w.refuses(cfg, *s)) {
		return nil
	}
	if s != nil {
		w.checks.commanded(rolling)
	}
	w.command("dcm apply "+argument, s, func() {
		switch now, _ := w.effective(); {
		case profile == "--clear":
			w.files.selection = ""
		case profile != "" && now != nil:
			w.files.selection = untilReboot(profile, config.OrNone(now.Persistent))
		}
		w.configEvent()
	})
	return nil
}

// schedule has a process killed: "daemon" or "run" immediately, "run 12" before its 12th effect, "run 12 after"
// after it, "run before modprobe" before the first effect whose name begins so, "run after modprobe" after it. A
// run is the present one, else the next.
func (w *world) schedule(argument string) (err error) {
	program, when, later := strings.Cut(argument, " ")
	now := w.alive(func(p *process) bool { return kindOf(p.program) == program })
	if !later {
		if now != nil {
			w.kill(now, 9)
		}
		return nil
	}
	k := kill{program: program}
	if name, ok := strings.CutPrefix(when, "before "); ok {
		k.name = name
	} else if name, ok := strings.CutPrefix(when, "after "); ok {
		k.name, k.after = name, true
	} else {
		when, k.after = strings.CutSuffix(when, " after")
		if k.at, err = strconv.Atoi(when); err != nil {
			return err
		}
	}
	if now == nil {
		w.kills = append(w.kills, k)
		return nil
	}
	if k.at > 0 {
		k.at += now.count
	}
	now.kill = &k
	return nil
}

// command is a command of the administrator: it writes a note and the selection, and has the daemon apply it.
// A call that the daemon does not answer is repeated, as package dbusapi does.
func (w *world) command(line string, s *runstate.Selection, choose func()) {
	p := w.newProcess("", line)
	p.command, p.rolling = true, s != nil && s.Rolling
	who := &runstate.Who{PID: p.pid, User: "root"}
	asked := runstate.Asked{Why: line, Who: who}
	go func() {
		p.effect("write the note", func() {
			w.files.notes = append(w.files.notes, runstate.Note{Time: time.Now(), Asked: asked, Selection: s})
		})
		p.effect("select", choose)
		text := p.call(runstate.Asked{Why: "Apply() was called over D-Bus", Who: who})
		p.effect("result: "+text, func() {})
		p.exit(0)
	}()
}

// call calls Apply of the daemon, and repeats the call if the daemon ends before it answers.
func (p *process) call(asked runstate.Asked) string {
	w := p.w
	for {
		var d *process
		ctx, cancel := context.WithTimeout(p.ctx, 10*time.Second)
		err := w.wait(ctx, p, func() bool {
			d = w.theDaemon()
			return d != nil && d.events.onBus && w.now() >= w.busAway
		})
		cancel()
		if err != nil {
			return "the daemon is not on the bus"
		}
		done := make(chan runstate.State, 1)
		var lost <-chan struct{}
		w.do(func() { lost = w.busLost })
		p.effect("call Apply", func() {
			go d.deliver("request", p.pid, func() bool { return post(d.events.requests, daemon.Request{Asked: asked, Done: done}) })
		})
		select {
		case s := <-done:
			if s.Phase != runstate.InSync && s.Phase != runstate.Idle || s.Error != nil {
				return "failed"
			}
			return "applied"
		case <-d.ctx.Done():
			continue
		case <-lost:
			continue
		case <-p.ctx.Done():
			return "ended"
		}
	}
}

// start boots the host: the generator runs, and all units are started.
func (w *world) start() {
	w.do(w.boots)
}

func (w *world) boots() {
	w.generate()
	names := []string{unitname.Apply, unitname.Daemon}
	for _, c := range w.plan.units {
		if c.kind() == ".service" && w.plan.triggered(c.Name) {
			continue
		}
		names = append(names, c.Name)
	}
	for _, name := range names { // one transaction of the boot target
		_, _ = w.pid1.Request("start", name, "replace")
	}
	for _, c := range w.plan.units {
		if strings.HasSuffix(c.Name, ".socket") {
			w.pid1.Connect(c.Name)
		}
	}
}

func (c client) kind() string { return c.Name[strings.LastIndexByte(c.Name, '.'):] }

// triggered reports whether another unit starts the service.
func (s *scenario) triggered(service string) bool {
	return slices.ContainsFunc(s.units, func(c client) bool { return c.Triggers == service })
}

// reboot is a power cut and a boot. The caller holds mu.
func (w *world) reboot() {
	for _, p := range slices.Clone(w.procs) {
		p.unit = ""
		w.finish(p, 0, 9)
	}
	w.pending = nil
	w.boot++
	w.files.reboot()
	for _, f := range w.plan.parts {
		for _, p := range f.paths {
			w.files.paths[p] = true
		}
	}
	w.gpus.boot()
	w.kills, w.timerAt, w.busAway, w.pid1Away = nil, 0, 0, 0
	if w.timer != nil {
		w.timer.Stop()
	}
	w.checks.rebooted()
	w.pid1 = pid1.New(env{w}, w.plan.all)
	w.enter()
	w.boots()
}

// random returns a random history: the features of the host, and the actions.
func random(seed uint64) script {
	r := rand.New(rand.NewPCG(seed, 0))
	s := script{seed: seed}
	all := features()
	for _, f := range all {
		if r.IntN(len(all)) < 4 {
			s.host = append(s.host, f.name)
		}
	}
	if slices.Contains(s.host, "rounds") {
		s.host = slices.DeleteFunc(s.host, func(n string) bool { return n == "single" })
	}
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	profile := func() string { return profiles()[r.IntN(len(profiles()))][0] }
	var units []string
	for _, c := range newScenario(s.host, nil, nil).units {
		units = append(units, c.Name)
	}
	held, edits, faults := 0, r.IntN(3) == 0, r.IntN(4) == 0
	for range 4 + r.IntN(30) {
		action := ""
		n := r.IntN(100)
		if (edits || faults) && r.IntN(4) == 0 {
			n = 97 + r.IntN(3)
		}
		switch {
		case n < 20:
			action = pick("use ", "use ", "edit ", "apply ") + profile()
		case n < 30:
			action = "apply " + profile() + " --rolling"
		case n < 34:
			action = pick("apply", "apply --clear", "edit comment", "edit broken")
		case n < 48:
			action = fmt.Sprintf("kill %s %d%s", pick("run", "run", "daemon"), 1+r.IntN(40), pick("", " after"))
			if r.IntN(3) == 0 {
				action = "kill " + pick("run after modprobe -r", "run before modprobe has", "run after switched", "daemon after save the state: applying", "daemon before save the state: in-sync", "daemon after read the notes")
			}
		case n < 54:
			action = pick("kill daemon", "kill run", "restart dcm", "reload dcm")
		case n < 64 && len(units) > 0:
			action = pick("start ", "stop ", "fail ") + units[r.IntN(len(units))]
		case n < 74:
			action = pick("arm b-dep", "arm b-dep", "connect late.socket")
		case n < 86:
			for range 1 + r.IntN(6)*r.IntN(2) {
				held++
				s.actions = append(s.actions, "hold")
			}
		case n < 92:
			for range held {
				s.actions = append(s.actions, "release", fmt.Sprintf("wait %dms", 500+r.IntN(5000)))
			}
			held = 0
		case n < 95:
			action = "drift " + pick("DPX", "QPX", "SPX", "CPX")
		case n < 96:
			action = "reboot"
		case n < 97:
			action = fmt.Sprintf("%s %dms", pick("bus", "pid1"), 300+r.IntN(8000))
		case n < 98 && edits:
			action = "option " + pick(append([]string{"require", "unit-of-change", "report"}, units...)...)
		case n < 99 && faults:
			action = "fault " + pick("compute EIO", "compute EBUSY 9", "compute EINVAL", "compute wrong", "compute hang", "memory EIO", "memory wrong", "unload EBUSY", "unload EBUSY 9", "load EIO", "load ENOMEM 2")
		case faults:
			action = pick("vanish ", "vanish ", "appear ") + strconv.Itoa(r.IntN(gpuCount))
		}
		if action != "" {
			s.actions = append(s.actions, action)
		}
		if r.IntN(3) > 0 {
			s.actions = append(s.actions, fmt.Sprintf("wait %dms", pickWait(r)))
		}
	}
	withDeadlines(s.actions, rand.New(rand.NewPCG(seed, 1)))
	return s
}

func pickWait(r *rand.Rand) int {
	switch r.IntN(4) {
	case 0:
		return 1 + r.IntN(300)
	case 1:
		return 300 + r.IntN(3000)
	case 2:
		return 3000 + r.IntN(12000)
	}
	return 15000 + r.IntN(120000)
}
