package openfiles

import (
	"context"
	"sync"
	"time"
)

// pass scans processes with several workers. A worker that hangs is abandoned and replaced.
type pass struct {
	*Scan
	ctx   context.Context
	chunk int // bytes of a directory to read at a time, see smallChunk

	mu       sync.Mutex
	queue    []int // PIDs that no worker has taken
	running  map[int]time.Time
	deferred []int
	done     chan struct{} // closed when queue and running are empty
}

// scan inspects the processes in their order. With smallChunk it returns those with more
// files than fit.
func (s *Scan) scan(ctx context.Context, pids []int, chunk int) (many []int) {
	if len(pids) == 0 {
		return nil
	}
	r := &pass{Scan: s, ctx: ctx, chunk: chunk, queue: pids, running: make(map[int]time.Time), done: make(chan struct{})}
	for range min(s.workers, len(pids)) {
		go r.work()
	}
	tick := time.NewTicker(max(s.perProcess/4, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-r.done:
			return r.deferred
		case <-tick.C:
			r.abandonHung()
		case <-ctx.Done():
			r.cancel()
			return nil
		}
	}
}

// work inspects one process after the other.
func (r *pass) work() {
	p := &scanWorker{scan: r.Scan, ctx: r.ctx, buf: make([]byte, r.chunk)}
	for pid := r.next(); pid > 0; pid = r.next() {
		if !r.record(r.inspect(p, pid)) {
			return // the process was abandoned
		}
	}
}

// inspect inspects one process, unless an earlier inspection of it hangs.
func (r *pass) inspect(p *scanWorker, pid int) result {
	began, process := time.Now(), r.dir(pid, "")
	if !active.begin(process, began, r.perProcess) {
		return result{pid: pid, reason: reasonHung}
	}
	defer active.end(process, began)
	return p.scanProcess(pid)
}

// next returns the next PID, 0 if there is none.
func (r *pass) next() (pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 || r.ctx.Err() != nil {
		return 0
	}
	pid, r.queue = r.queue[0], r.queue[1:]
	r.running[pid] = time.Now()
	return pid
}

// record stores the result of a process. It returns false if the process was abandoned.
func (r *pass) record(l result) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, awaited := r.running[l.pid]; !awaited {
		return false
	}
	switch {
	case l.deferred:
		r.deferred = append(r.deferred, l.pid)
	case l.reason != "":
		r.skipped[l.pid] = l.reason
	}
	if len(l.files) > 0 {
		r.found[l.pid] = append(r.found[l.pid], l.files...)
		r.started[l.pid] = l.started
	}
	r.finish(l.pid)
	return true
}

// finish ends the inspection of one process, and the pass after the last one.
func (r *pass) finish(pid int) {
	delete(r.running, pid)
	if len(r.queue)+len(r.running) == 0 {
		close(r.done)
	}
}

// abandonHung gives up processes whose worker does not even notice the timeout. On a busy
// host, noticing takes a while.
func (r *pass) abandonHung() {
	const noticeDelay = time.Second
	r.mu.Lock()
	defer r.mu.Unlock()
	for pid, since := range r.running {
		if time.Since(since) > r.perProcess+max(r.perProcess, noticeDelay) {
			r.skipped[pid] = reasonHung
			r.finish(pid)
			go r.work()
		}
	}
}

// cancel gives up all processes that were not inspected, deferred ones included.
func (r *pass) cancel() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for pid := range r.running {
		r.skipped[pid] = reasonTimeout
	}
	for _, pid := range append(r.queue, r.deferred...) {
		r.skipped[pid] = reasonTimeout
	}
	r.running, r.queue = nil, nil
}
