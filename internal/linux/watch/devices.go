package watch

import (
	"context"
	"log/slog"
	"time"
)

// Interest selects the devices to watch.
type Interest struct {
	About func(Uevent) bool // reports whether an event of the kernel is about such a device
	Files func() []string   // returns files of the devices to watch for writes; nil: none
}

// Devices signals after an event of the kernel about a selected device, and after a write to one of
// its files. Before each signal it lists and watches the files again. So a caller that reads the
// devices after the signal misses no change.
//
// Several changes cause one signal, as for [Files]. The channel is closed after ctx has ended and all
// watches are removed. While nothing changes, no timer runs and no thread is blocked. While the set
// polls, it signals at each poll.
func (s *Set) Devices(ctx context.Context, in Interest, quiet time.Duration, log *slog.Logger) (<-chan struct{}, error) {
	socket, err := openUevents()
	if err != nil {
		return nil, err
	}
	changed := make(chan struct{}, 1)
	note := func() { offer(changed) }
	run := func(read func() error) {
		if err := read(); err != nil && ctx.Err() == nil {
			log.Error(err.Error())
			note()
		}
	}
	w := new(writes)
	arm := func() {
		if in.Files == nil {
			return
		}
		if err := w.arm(in.Files()); err != nil && ctx.Err() == nil {
			log.Warn(err.Error())
		}
	}
	if in.Files != nil {
		switch err := s.openWrites(w); {
		case err == nil:
			go run(func() error { return w.read(note) })
		case s.mayPoll(err):
			s.beginPolling(err)
			go func() {
				if s.polled(ctx, func() error { return s.openWrites(w) }, note) {
					note() // for writes since the last poll; the signal arms the files
					run(func() error { return w.read(note) })
				}
			}()
		default:
			socket.Close()
			return nil, err
		}
		s.join(w.end)
	}
	closed := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer close(closed)
		socket.Close()
	})
	arm()
	s.mu.Lock()
	s.arms = append(s.arms, arm)
	s.mu.Unlock()
	go run(func() error { return readUevents(socket, in.About, note) })
	out := make(chan struct{}, 1)
	go func() {
		defer close(out)
		coalesce(ctx, debounce{quiet: quiet}, changed, func() {
			arm()
			offer(out)
		})
		if in.Files != nil {
			s.end()
			w.close()
		}
		<-closed
	}()
	return out, nil
}

func (s *Set) openWrites(w *writes) error {
	if err := s.allowed(); err != nil {
		return limited(err)
	}
	return w.open()
}

// offer sends a signal unless one is pending.
func offer(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// coalesce calls signal once after several changes in succession, until ctx ends.
func coalesce(ctx context.Context, d debounce, changed <-chan struct{}, signal func()) {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			timer.Reset(d.change(time.Now()))
		case <-timer.C:
			d.done()
			signal()
		}
	}
}
