package top

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"dcm/internal/frontends/status"
)

// Look looks how much is in use.
type Look func(context.Context) (status.Usage, error)

// Live shows the partitions until somebody quits, or ctx ends, or a signal comes. The
// terminal is as it was then, whatever happened.
func Live(ctx context.Context, in, out *os.File, look Look, by string, every time.Duration) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	was, err := term.GetState(int(in.Fd()))
	if err != nil {
		return fmt.Errorf("standard input is no terminal: %w", err)
	}
	defer func() {
		_, _ = out.WriteString(leave) // it may be gone
		_ = term.Restore(int(in.Fd()), was)
	}()
	s := screen{in: in, out: out, model: newModel(by, every)}
	if err := s.enter(); err != nil {
		return err
	}
	return s.run(ctx, look, every)
}

// What a terminal is told (ECMA-48, and xterm's): another screen than the one that the
// shell has, without the cursor, and back.
const (
	enter   = "\x1b[?1049h\x1b[?25l"
	leave   = "\x1b[?25h\x1b[?1049l"
	home    = "\x1b[H"
	endLine = "\x1b[K"
	endPage = "\x1b[J"
	head    = "\x1b[7m"
	plain   = "\x1b[0m"
)

type screen struct {
	in, out *os.File
	model   model
	before  status.Usage
}

// enter has single keys, and a screen of its own.
func (s *screen) enter() error {
	if _, err := term.MakeRaw(int(s.in.Fd())); err != nil {
		return fmt.Errorf("cannot have single keys of the terminal: %w", err)
	}
	_, err := s.out.WriteString(enter)
	return err
}

// seen is what a look showed.
type seen struct {
	usage status.Usage
	err   error
	panic any
}

func (s *screen) run(ctx context.Context, look Look, every time.Duration) error {
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH, syscall.SIGCONT)
	defer signal.Stop(resized)
	ctx, cancel := context.WithCancel(ctx) // a look that is under way is not waited for
	defer cancel()
	sent, looks := make(chan string), make(chan seen, 1)
	go s.listen(ctx, sent)
	due := time.NewTimer(0)
	defer due.Stop()
	rest, looking := "", false
	for {
		s.resize()
		if err := s.draw(); err != nil {
			return err
		}
		var late <-chan time.Time
		if rest != "" {
			late = time.After(sequenceTime)
		}
		select {
		case <-ctx.Done():
			return nil
		case sig := <-resized:
			if sig == syscall.SIGCONT { // a shell has had the terminal meanwhile
				if err := s.enter(); err != nil {
					return err
				}
			}
		case <-due.C:
			if !looking {
				looking = true
				go func() { looks <- once(ctx, look) }()
			}
		case l := <-looks:
			looking = false
			if l.panic != nil {
				panic(l.panic) // here, where the terminal is given back
			}
			s.take(l)
			due.Reset(every)
		case text, ok := <-sent:
			if !ok {
				return nil // the terminal is gone
			}
			var pressed []key
			if pressed, rest = keys(rest+text, false); s.press(pressed, due) {
				return nil
			}
		case <-late:
			var pressed []key
			if pressed, rest = keys(rest, true); s.press(pressed, due) {
				return nil
			}
		}
	}
}

// sequenceTime is within what all of a key's sequence comes.
const sequenceTime = 50 * time.Millisecond

// press tells whether to quit.
func (s *screen) press(pressed []key, due *time.Timer) bool {
	for _, k := range pressed {
		var a act
		switch s.model, a = s.model.press(k); a {
		case quit:
			return true
		case refresh:
			due.Reset(0)
		}
	}
	return false
}

func once(ctx context.Context, look Look) (l seen) {
	defer func() { l.panic = recover() }()
	l.usage, l.err = look(ctx)
	return l
}

func (s *screen) take(l seen) {
	if s.model.err = l.err; l.err != nil {
		return // what was seen before stays
	}
	s.model.usage, s.model.looked = l.usage.Since(s.before), true
	s.before = l.usage
}

// listen ends with the terminal, or else with the program: a read cannot be called off.
func (s *screen) listen(ctx context.Context, sent chan<- string) {
	defer close(sent)
	buf := make([]byte, 256)
	for {
		n, err := s.in.Read(buf)
		if n == 0 || err != nil {
			return
		}
		select {
		case sent <- string(buf[:n]):
		case <-ctx.Done():
			return
		}
	}
}

func (s *screen) resize() {
	if w, h, err := term.GetSize(int(s.out.Fd())); err == nil && w > 0 && h > 0 {
		s.model.width, s.model.height = w, h
	}
}

// draw writes the screen at once, so that it does not flicker.
func (s *screen) draw() error {
	var b strings.Builder
	b.WriteString(home)
	lines := s.model.view()
	for i, text := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		if i == around-1 && s.model.looked && !s.model.help {
			text = head + text + plain
		}
		b.WriteString(text + endLine)
	}
	b.WriteString(endPage)
	_, err := s.out.WriteString(b.String())
	return err
}

// Batch writes count looks as text, without end for 0.
func Batch(ctx context.Context, look Look, every time.Duration, count int, tell func(status.Usage) error) error {
	var before status.Usage
	for i := 0; ; i++ {
		u, err := look(ctx)
		if err != nil {
			return err
		}
		if err := tell(u.Since(before)); err != nil {
			return err
		}
		before = u
		if i+1 == count {
			return nil
		}
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return nil
		}
	}
}
