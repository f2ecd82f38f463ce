package crowd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"dcm/internal/testkit/testdeadline"
)

// patience is what a batch may take: a daemon that was killed has to be back, and every
// other process of the machine to have had its turn.
const patience = 3 * time.Minute

// Serve does what one client after the other asks for. When a client goes, so does
// everybody who came for it.
func Serve(ctx context.Context, socket, ready string) error {
	if err := os.RemoveAll(socket); err != nil {
		return err
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	if err := os.WriteFile(ready, []byte("ready\n"), 0o644); err != nil {
		return err
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		if err := serve(ctx, conn); err != nil {
			return err
		}
	}
}

func serve(ctx context.Context, conn net.Conn) error {
	defer conn.Close()
	c := &people{answer: make(map[string]int)}
	ctx, end := context.WithCancel(ctx)
	defer end()
	go c.intrude(ctx)
	in, out := json.NewDecoder(conn), json.NewEncoder(conn)
	for {
		var b Batch
		err := in.Decode(&b)
		if errors.Is(err, io.EOF) {
			return c.end(ctx)
		}
		if err == nil {
			err = out.Encode(c.batch(ctx, b))
		}
		if err != nil {
			return err
		}
	}
}

// batch is one batch, and the look behind it.
func (c *people) batch(ctx context.Context, b Batch) (r Reply) {
	ctx, cancel := testdeadline.Context(ctx, patience)
	defer cancel()
	began := time.Now()
	var err error
	switch r.Amid, err = c.do(ctx, b); {
	case err != nil && b.AtAll && ctx.Err() == nil:
		c.tell("a step was in vain, as who does it was not there")
	case err != nil:
		r.Problems = append(r.Problems, err.Error())
	}
	r.Doing = time.Since(began)
	if !b.AtAll {
		var l Look
		var problems []string
		l, r.Looks, problems = c.settle(ctx, b)
		r.Free, r.Problems = l.Free, append(r.Problems, problems...)
	}
	r.Looking = time.Since(began) - r.Doing
	r.Holders, r.Waiting = len(c.holders()), len(c.waiting())
	var twice []string
	twice, r.Answers = c.taken()
	r.Problems = append(r.Problems, twice...)
	return r
}

// settle looks until all is well. Nothing tells of all that is looked at, and a look
// takes longer than what is waited for.
func (c *people) settle(ctx context.Context, b Batch) (l Look, looks int, problems []string) {
	for {
		var err error
		if b.Full {
			err = c.ask(ctx)
		}
		if err == nil {
			l, err = c.look(ctx, b.Full)
		}
		looks++
		if problems = nil; err != nil {
			problems = append(problems, fmt.Sprintf("it cannot be seen what is so: %v", err))
		} else {
			problems = l.Problems(b)
		}
		if len(problems) == 0 || ctx.Err() != nil || looks > mostLooks {
			return l, looks, problems
		}
	}
}

// mostLooks are enough for all that takes a moment. Where the daemon is away for longer
// each of them takes as long as that.
const mostLooks = 100

// ask has everybody who has a lease say anew what he can open.
func (c *people) ask(ctx context.Context) error {
	for _, p := range c.holders() {
		if _, err := io.WriteString(p.in, "look\n"); err != nil {
			continue // he has ended
		}
		var s Said
		if err := p.out.Decode(&s); err == nil {
			c.mu.Lock()
			p.said = s
			c.mu.Unlock()
		}
	}
	return ctx.Err()
}
