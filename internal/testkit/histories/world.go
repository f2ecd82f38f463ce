package histories

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"time"

	"dcm/internal/testkit/pid1"
	"dcm/internal/testkit/sim"
)

// world is the host: PID 1, GPUs, processes and files. Its methods hold mu, and never wait while they do.
type world struct {
	seed  uint64
	began time.Time
	log   io.Writer // nil: no journal

	mu      sync.Mutex
	order   *rand.Rand // of PID 1's jobs
	pid1    *pid1.Manager
	gpus    *gpus
	files   files
	plan    *scenario
	boot    int
	procs   []*process
	last    int        // the last PID
	pending []func()   // what PID 1 learns next
	started []*process // to be started when mu is free
	waits   []*waiter
	timer   *time.Timer   // of PID 1
	timerAt time.Duration // when it fires; 0: it is not set
	ended   bool
	effects int
	actions int
	hash    uint64 // of all effects and states
	checks  *checks
	armed   map[string]bool // units whose next start fails
	kills   []kill

	busAway  time.Duration // until when the bus does not answer
	busLost  chan struct{} // closed when the bus ends
	pid1Away time.Duration // until when PID 1 does not answer
}

// kill is a process to be killed at an effect.
type kill struct {
	program string // "daemon" or "run"
	at      int    // number of the effect, from 1; 0: the first one with the name
	name    string // begins the effect's name
	after   bool   // the effect takes place
}

// is reports whether a process is killed at its effect.
func (k *kill) is(count int, name string) bool {
	if k.at == 0 {
		return strings.HasPrefix(name, k.name)
	}
	return count >= k.at
}

type waiter struct {
	ready func() bool
	done  chan struct{}
}

var errKilled = errors.New("the process was killed")

func newWorld(seed uint64, plan *scenario, log io.Writer) *world {
	w := &world{seed: seed, began: time.Now(), log: log, plan: plan, boot: 1, last: 1000, armed: make(map[string]bool), busLost: make(chan struct{})}
	w.order = rand.New(rand.NewPCG(seed, 1))
	w.checks = newChecks(w)
	w.gpus = newGPUs(w)
	w.files = plan.files()
	w.pid1 = pid1.New(env{w}, plan.all)
	return w
}

// now returns the time since boot, at least a second.
func (w *world) now() time.Duration { return time.Since(w.began) + time.Second }

// do changes the world. f must not wait.
func (w *world) do(f func()) {
	w.mu.Lock()
	w.enter()
	f()
	w.leave()
	w.mu.Unlock()
}

func (w *world) enter() { w.pid1.At(w.now()) }

// leave passes what has happened to PID 1 and to those that wait, and starts processes. The caller holds mu.
func (w *world) leave() {
	for len(w.pending) > 0 {
		next := w.pending[0]
		w.pending = w.pending[1:]
		next()
	}
	w.checks.observe()
	left := w.waits[:0]
	for _, one := range w.waits {
		if one.ready() {
			close(one.done)
		} else {
			left = append(left, one)
		}
	}
	w.waits = left
	for _, p := range w.started {
		go p.run()
	}
	w.started = nil
	w.setTimer()
}

// setTimer wakes PID 1 when it has something to do.
func (w *world) setTimer() {
	at, ok := w.pid1.Next()
	if w.ended || !ok {
		at = 0
	}
	if at == w.timerAt {
		return
	}
	if w.timer != nil {
		w.timer.Stop()
	}
	if w.timerAt = at; at == 0 {
		return
	}
	w.timer = time.AfterFunc(at-w.now()+w.jitter("pid1", at.String(), 0), func() {
		w.do(func() {
			w.timerAt = 0
			if !w.ended {
				w.pid1.Advance()
			}
		})
	})
}

// jitter returns the duration of an effect, from 10 to 500 µs.
func (w *world) jitter(who, what string, count int) time.Duration {
	h := mix(w.seed).text(who).text(what).number(uint64(count))
	return 10*time.Microsecond + time.Duration(h%490_000)
}

// mix is a hash (FNV-1a), which is finished by number.
type mix uint64

func (m mix) text(s string) mix {
	for i := range len(s) {
		m = (m ^ mix(s[i])) * 1099511628211
	}
	return m.number(uint64(len(s)))
}

func (m mix) number(n uint64) mix {
	m = (m ^ mix(n)) * 1099511628211
	m ^= m >> 32
	m *= 0xd6e8feb86659fd93
	return m ^ m>>32
}

// random returns a number from 0 to n-1 that depends on the seed and on what.
func (w *world) random(n int64, what string) int64 {
	return int64(uint64(mix(w.seed).text(what)) % uint64(n))
}

// note adds to the hash and the journal. The caller holds mu.
func (w *world) note(who, text string) {
	w.hash = uint64(mix(w.hash).text(who).text(text).number(uint64(w.now())))
	if w.log != nil {
		fmt.Fprintf(w.log, "%11.6f %-14s %s\n", w.now().Seconds(), who, text)
	}
}

// wait returns when the condition holds, or with the error of ctx. ready is called with mu held.
func (w *world) wait(ctx context.Context, p *process, ready func() bool) error {
	w.mu.Lock()
	if p.dead {
		w.mu.Unlock()
		runtime.Goexit()
	}
	if ready() {
		w.mu.Unlock()
		return nil
	}
	one := &waiter{ready: ready, done: make(chan struct{})}
	w.waits = append(w.waits, one)
	w.mu.Unlock()
	select {
	case <-one.done:
		return nil
	case <-ctx.Done():
	}
	w.mu.Lock()
	for i, o := range w.waits {
		if o == one {
			w.waits = append(w.waits[:i], w.waits[i+1:]...)
			break
		}
	}
	w.mu.Unlock()
	return ctx.Err()
}

// env is the world as PID 1 sees it. PID 1 calls it with mu held.
type env struct{ w *world }

func (e env) Spawn(unit, program, invocation string) int {
	p := e.w.newProcess(unit, program)
	p.unit, p.invocation = unit, invocation
	e.w.started = append(e.w.started, p)
	return p.pid
}

func (e env) Signal(pid int, hard bool) {
	w := e.w
	w.pending = append(w.pending, func() {
		for _, p := range w.procs {
			if p.pid == pid && !p.dead {
				if hard {
					w.kill(p, 9)
				} else {
					p.terminate()
				}
			}
		}
	})
}

func (e env) Condition(text string) bool {
	unit, withheld := strings.CutPrefix(text, "!/run/dcm/withheld/")
	if withheld {
		_, found := e.w.files.withheld[unit]
		return !found
	}
	switch text {
	case "driver":
		return e.w.gpus.loaded()
	case "":
		return true
	}
	return e.w.files.paths[text]
}

func (e env) Shuffle(n int, swap func(i, j int)) { e.w.order.Shuffle(n, swap) }

func (e env) Log(ev pid1.Event) {
	text := ev.Unit + " " + ev.Sub
	if ev.Sub == "" {
		text = fmt.Sprintf("%s job %d %s: %s", ev.Unit, ev.Job, ev.Type, ev.Result)
	}
	e.w.note("pid1", text)
	e.w.checks.event(ev)
}

// uevent is called by the simulator while it holds its own lock, in an effect or at the end of a device
// write.
func (w *world) uevent(sim.Uevent) { w.gpus.touched = true }
