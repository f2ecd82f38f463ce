package histories

import (
	"context"
	"runtime"
	"slices"
	"strconv"
	"time"

	"dcm/internal/testkit/sim"
)

// process is a running program. All its goroutines pass their effects through it.
type process struct {
	w          *world
	pid        int
	unit       string // "" for a process of no unit
	invocation string
	program    string

	ctx    context.Context // ends with the process, and at SIGTERM
	cancel context.CancelFunc

	dead     bool // guarded by w.mu
	count    int  // number of effects
	counts   map[string]int
	kill     *kill
	inKernel bool // in a call that a signal does not interrupt
	signaled bool // SIGKILL takes effect at the end of the call
	handles  []*sim.Handle
	holder   bool
	command  bool // of the administrator
	rolling  bool // with --rolling
	locks    []*bool
	events   *events // of the daemon
}

// newProcess creates a process. The caller holds mu.
func (w *world) newProcess(unit, program string) *process {
	w.last++
	p := &process{w: w, pid: w.last, program: program, counts: make(map[string]int)}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	for i, k := range w.kills {
		if k.program == kindOf(program) {
			p.kill = &k
			w.kills = slices.Delete(w.kills, i, i+1)
			break
		}
	}
	w.procs = append(w.procs, p)
	return p
}

// kindOf returns the name of a program in actions.
func kindOf(program string) string {
	switch program {
	case "dcm oneshot", "dcm change":
		return "run"
	case "dcm daemon":
		return "daemon"
	}
	return program
}

func (p *process) name() string {
	if p.unit == "" {
		return p.program
	}
	return p.unit
}

// effect waits for the turn of an effect, and makes it. The goroutine ends if the process has been killed.
func (p *process) effect(name string, f func()) {
	if !p.effects(name, true, f) {
		runtime.Goexit()
	}
}

// tryEffect is effect for a caller that returns an error after a kill.
func (p *process) tryEffect(name string, f func()) error {
	if !p.effects(name, true, f) {
		return errKilled
	}
	return nil
}

// immediately is effect for a caller that holds a mutex.
func (p *process) immediately(name string, f func()) {
	if !p.effects(name, false, f) {
		runtime.Goexit()
	}
}

func (p *process) effects(name string, wait bool, f func()) (alive bool) {
	w := p.w
	w.mu.Lock()
	if p.dead {
		w.mu.Unlock()
		return false
	}
	p.counts[name]++
	count := p.counts[name]
	w.mu.Unlock()
	if wait {
		time.Sleep(w.jitter(strconv.Itoa(p.pid), name, count))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.dead {
		return false
	}
	p.count++
	w.effects++
	w.enter()
	killed := p.kill != nil && p.kill.is(p.count, name)
	if !killed || p.kill.after || p.inKernel {
		w.note(p.name(), name)
		f()
	}
	killed = killed || p.signaled && !p.inKernel
	if killed {
		w.note(p.name(), "killed at: "+name)
		w.kill(p, 9)
	}
	w.leave()
	return !p.dead
}

// kill ends a process with a signal, at the end of the call in which it is. The caller holds mu.
func (w *world) kill(p *process, sig int) {
	if p.inKernel {
		p.signaled = true
		return
	}
	w.finish(p, 0, sig)
}

// exit ends a process with a status, at its turn.
func (p *process) exit(status int) {
	_ = p.tryEffect("exit "+strconv.Itoa(status), func() { p.w.finish(p, status, 0) })
}

// finish is what the kernel does at the end of a process. The caller holds mu.
func (w *world) finish(p *process, status, sig int) {
	if p.dead {
		return
	}
	p.dead = true
	p.close()
	for _, l := range p.locks {
		*l = false
	}
	p.locks = nil
	p.cancel()
	w.checks.restarted = w.checks.restarted || p.events != nil
	w.procs = slices.DeleteFunc(w.procs, func(o *process) bool { return o == p })
	if p.unit == "" {
		return
	}
	w.note(p.unit, "process ended: status "+strconv.Itoa(status)+" signal "+strconv.Itoa(sig))
	w.pending = append(w.pending, func() { w.pid1.Exited(p.unit, p.pid, status, sig) })
}

// terminate is SIGTERM. The caller holds mu.
func (p *process) terminate() { p.cancel() }

// close closes the devices of a process. The caller holds mu.
func (p *process) close() {
	for _, h := range p.handles {
		h.Close()
	}
	if len(p.handles) > 0 {
		p.w.gpus.useChanged++
	}
	p.handles = nil
}

// lock takes a lock that ends with the process. It returns false if another process has it.
func (p *process) lock(l *bool) bool {
	if *l {
		return false
	}
	*l = true
	p.locks = append(p.locks, l)
	return true
}

func (p *process) unlock(l *bool) {
	*l = false
	p.locks = slices.DeleteFunc(p.locks, func(o *bool) bool { return o == l })
}

// run runs the program of a unit.
func (p *process) run() {
	switch p.program {
	case "dcm daemon":
		p.daemon()
	case "dcm oneshot", "dcm change", "dcm gate":
		p.oneshot()
	default:
		p.client()
	}
}

// alive returns the process of a unit or kind, nil if there is none. The caller holds mu.
func (w *world) alive(match func(*process) bool) *process {
	for _, p := range w.procs {
		if match(p) {
			return p
		}
	}
	return nil
}
