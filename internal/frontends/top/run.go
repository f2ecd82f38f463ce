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

// Query returns the current usage.
type Query func(context.Context) (status.Usage, error)

// Live shows the partitions until the user quits, ctx ends or a signal arrives. It always
// restores the terminal.
func Live(ctx context.Context, in, out *os.File, query Query, o Order, every time.Duration, colour bool) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	was, err := term.GetState(int(in.Fd()))
	if err != nil {
		return fmt.Errorf("standard input is no terminal: %w", err)
	}
	defer func() {
		_, _ = out.WriteString(leave) // fails if the terminal is closed
		_ = term.Restore(int(in.Fd()), was)
	}()
	s := screen{in: in, out: out, model: newModel(o, every)}
	s.model.colour = colour
	if err := s.enter(); err != nil {
		return err
	}
	return s.run(ctx, query, every)
}

// Control sequences (ECMA-48 and xterm). enter switches to the alternate screen without a
// cursor, and leave switches back.
const (
	enter   = "\x1b[?1049h\x1b[?25l"
	leave   = "\x1b[?25h\x1b[?1049l"
	home    = "\x1b[H"
	endLine = "\x1b[K"
	endPage = "\x1b[J"
	head    = "\x1b[7m"
	plain   = "\x1b[0m"
)

// screen is a terminal with the shown usage.
type screen struct {
	in, out *os.File
	model   model
	before  status.Usage // the previous sample
}

// enter switches the terminal to raw mode and to the alternate screen.
func (s *screen) enter() error {
	if _, err := term.MakeRaw(int(s.in.Fd())); err != nil {
		return fmt.Errorf("cannot switch the terminal to raw mode: %w", err)
	}
	_, err := s.out.WriteString(enter)
	return err
}

// queryResult is the result of one query.
type queryResult struct {
	usage status.Usage
	err   error
	panic any
}

func (s *screen) run(ctx context.Context, query Query, every time.Duration) error {
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH, syscall.SIGCONT)
	defer signal.Stop(resized)
	ctx, cancel := context.WithCancel(ctx) // ends a running query
	defer cancel()
	input, results := make(chan string), make(chan queryResult, 1)
	go s.listen(ctx, input)
	due := time.NewTimer(0)
	defer due.Stop()
	rest, querying := "", false
	for {
		s.resize()
		if err := s.draw(); err != nil {
			return err
		}
		var late <-chan time.Time
		if rest != "" {
			late = time.After(sequenceTimeout)
		}
		select {
		case <-ctx.Done():
			return nil
		case sig := <-resized:
			if sig == syscall.SIGCONT { // while dcm top was stopped, the shell used the terminal
				if err := s.enter(); err != nil {
					return err
				}
			}
		case <-due.C:
			if !querying {
				querying = true
				go func() { results <- runQuery(ctx, query) }()
			}
		case r := <-results:
			querying = false
			if r.panic != nil {
				panic(r.panic) // here, since this goroutine restores the terminal
			}
			s.update(r)
			due.Reset(every)
		case text, ok := <-input:
			if !ok {
				return nil // the terminal was closed
			}
			var pressed []key
			if pressed, rest = parseKeys(rest+text, false); s.press(pressed, due) {
				return nil
			}
		case <-late:
			var pressed []key
			if pressed, rest = parseKeys(rest, true); s.press(pressed, due) {
				return nil
			}
		}
	}
}

// sequenceTimeout limits the time in which the whole sequence of a key arrives.
const sequenceTimeout = 50 * time.Millisecond

// press handles keys and reports whether to quit.
func (s *screen) press(pressed []key, due *time.Timer) bool {
	for _, k := range pressed {
		var a action
		switch s.model, a = s.model.press(k); a {
		case quit:
			return true
		case refresh:
			due.Reset(0)
		}
	}
	return false
}

func runQuery(ctx context.Context, query Query) (r queryResult) {
	defer func() { r.panic = recover() }()
	r.usage, r.err = query(ctx)
	return r
}

func (s *screen) update(r queryResult) {
	if s.model.err = r.err; r.err != nil {
		return // the last result stays on the screen
	}
	s.model.usage, s.model.loaded = r.usage.Since(s.before), true
	s.before = r.usage
}

// listen sends the input until the terminal is closed or ctx ends. A blocked read cannot be
// cancelled; it ends with the program.
func (s *screen) listen(ctx context.Context, input chan<- string) {
	defer close(input)
	buf := make([]byte, 256)
	for {
		n, err := s.in.Read(buf)
		if n == 0 || err != nil {
			return
		}
		select {
		case input <- string(buf[:n]):
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

// draw writes the whole screen with one write, so that it does not flicker.
func (s *screen) draw() error {
	var b strings.Builder
	b.WriteString(home)
	lines := s.model.view()
	for i, text := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		if s.model.loaded && !s.model.help {
			text = s.decorated(i, text)
		}
		b.WriteString(text + endLine)
	}
	b.WriteString(endPage)
	_, err := s.out.WriteString(b.String())
	return err
}

// decorated returns a line of the table: the heading in reverse, the bars in the colour of their load.
func (s *screen) decorated(i int, line string) string {
	bars := s.model.bars()
	switch n := i - 2; {
	case n == len(bars):
		return head + line + plain
	case n >= 0 && n < len(bars) && s.model.colour:
		return painted(line, bars[n].colour())
	}
	return line
}

// Batch calls print with count results, or without end if count is 0.
func Batch(ctx context.Context, query Query, every time.Duration, count int, print func(status.Usage) error) error {
	var before status.Usage
	for i := 0; ; i++ {
		u, err := query(ctx)
		if err != nil {
			return err
		}
		if err := print(u.Since(before)); err != nil {
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
