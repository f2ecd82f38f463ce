package remote

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
)

// A serial line has no connections, so each message carries the id of its command. Either
// side ignores messages with an unknown id and lines that are no message: after a
// virtual machine is restored from a snapshot, its line holds the rest of another
// conversation.

type request struct {
	ID string
	Command
	Cancel bool `json:",omitempty"` // kill the command ID
}

type reply struct {
	ID    string `json:",omitempty"`
	Hello string `json:",omitempty"` // the first message of a server
	frame
}

// ServeSerial sends hello, which is one word that identifies this server, and runs the
// commands that arrive on the line until it ends.
func ServeSerial(ctx context.Context, line io.ReadWriter, hello string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out := &serialWriter{line: line}
	if err := out.write(reply{Hello: hello}); err != nil {
		return err
	}
	running := make(map[string]context.CancelFunc)
	var mu sync.Mutex
	lines := newLines(line)
	for lines.Scan() {
		var r request
		if json.Unmarshal(lines.Bytes(), &r) != nil || r.ID == "" {
			continue
		}
		mu.Lock()
		stop, known := running[r.ID]
		switch {
		case r.Cancel && known:
			stop()
		case !r.Cancel && !known && len(r.Argv) > 0:
			one, stop := context.WithCancel(ctx)
			running[r.ID] = stop
			go func() {
				s := &stream{enc: out.encoder(r.ID)}
				last := execute(one, r.Command, s)
				mu.Lock()
				delete(running, r.ID)
				mu.Unlock()
				stop()
				s.send(last) // the other side may have left
			}()
		}
		mu.Unlock()
	}
	return lines.Err()
}

// Line is the caller's end of a serial line. Its methods are safe for concurrent use.
type Line struct {
	Hello <-chan string // of each server that starts; closed when the line has ended

	out *serialWriter

	mu      sync.Mutex
	waiting map[string]pending
	ended   error // why no more replies come
}

// pending is a command whose last frame has not arrived.
type pending struct {
	frames chan frame
	done   chan struct{} // closed when the caller has left
}

// NewLine reads replies from the line until it ends.
func NewLine(line io.ReadWriter) *Line {
	hello := make(chan string, 8)
	l := &Line{Hello: hello, out: &serialWriter{line: line}, waiting: make(map[string]pending)}
	go l.read(line, hello)
	return l
}

func (l *Line) read(line io.Reader, hello chan<- string) {
	defer close(hello)
	lines := newLines(line)
	for lines.Scan() {
		var r reply
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			continue
		}
		if r.Hello != "" {
			select {
			case hello <- r.Hello:
			default: // the caller does not count them
			}
			continue
		}
		l.mu.Lock()
		p := l.waiting[r.ID] // without channels if there is none
		l.mu.Unlock()
		if p.frames == nil {
			continue
		}
		select {
		case p.frames <- r.frame:
		case <-p.done:
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = errors.Join(io.ErrUnexpectedEOF, lines.Err())
	for _, p := range l.waiting {
		close(p.frames)
	}
	l.waiting = nil
}

// Run is [Run] over the line.
func (l *Line) Run(ctx context.Context, c Command) (Result, error) {
	id, name := rand.Text(), strings.Join(c.Argv, " ")
	p := pending{frames: make(chan frame), done: make(chan struct{})}
	l.mu.Lock()
	ended := l.ended
	if ended == nil {
		l.waiting[id] = p
	}
	l.mu.Unlock()
	if ended != nil {
		return Result{}, fmt.Errorf("cannot run %q: %w", name, ended)
	}
	defer l.forget(id, p)
	out := l.out.encoder(id)
	if err := out.request(request{ID: id, Command: c}); err != nil {
		return Result{}, fmt.Errorf("cannot run %q: %w", name, err)
	}
	r, err := collect(func(f *frame) error {
		select {
		case next, ok := <-p.frames:
			if !ok {
				return io.ErrUnexpectedEOF
			}
			*f = next
			return nil
		case <-ctx.Done():
			return errors.Join(ctx.Err(), out.request(request{ID: id, Cancel: true}))
		}
	})
	if err != nil {
		return r, fmt.Errorf("%q was interrupted: %w", name, err)
	}
	return r, nil
}

func (l *Line) forget(id string, p pending) {
	close(p.done)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiting, id)
}

// serialWriter writes whole lines.
type serialWriter struct {
	mu   sync.Mutex
	line io.Writer
}

func (w *serialWriter) write(message any) error {
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err = w.line.Write(append(text, '\n'))
	return err
}

func (w *serialWriter) encoder(id string) serialEncoder { return serialEncoder{id, w} }

// serialEncoder adds the id of a command to its messages.
type serialEncoder struct {
	id string
	w  *serialWriter
}

func (e serialEncoder) Encode(v any) error {
	f, ok := v.(frame)
	if !ok {
		return fmt.Errorf("cannot send a %T", v)
	}
	return e.w.write(reply{ID: e.id, frame: f})
}

func (e serialEncoder) request(r request) error { return e.w.write(r) }

// newLines reads lines of up to 16 MiB.
func newLines(r io.Reader) *bufio.Scanner {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	return lines
}
