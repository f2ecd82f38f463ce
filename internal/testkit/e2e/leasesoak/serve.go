package leasesoak

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

// batchTimeout is the limit for a batch. It includes the restart of a daemon that was killed.
const batchTimeout = 3 * time.Minute

// Serve runs the batches of one connection after the other. At the end of a connection it
// kills the clients.
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
	c := &clients{answers: make(map[string]int)}
	ctx, end := context.WithCancel(ctx)
	defer end()
	go probe(ctx, c)
	in, out := json.NewDecoder(conn), json.NewEncoder(conn)
	for {
		var b Batch
		err := in.Decode(&b)
		if errors.Is(err, io.EOF) {
			return c.stopAll(ctx)
		}
		if err == nil {
			err = out.Encode(c.batch(ctx, b))
		}
		if err != nil {
			return err
		}
	}
}

// batch runs a batch, and checks the state after it.
func (c *clients) batch(ctx context.Context, b Batch) (r Reply) {
	ctx, cancel := testdeadline.Context(ctx, batchTimeout)
	defer cancel()
	began := time.Now()
	var err error
	switch r.Output, err = c.do(ctx, b); {
	case err != nil && b.Unchecked && ctx.Err() == nil:
		c.count("step failed: no daemon")
	case err != nil:
		r.Problems = append(r.Problems, err.Error())
	}
	r.Acting = time.Since(began)
	if !b.Unchecked {
		r.Problems = append(r.Problems, c.settle(ctx, b, &r)...)
	}
	r.Checking = time.Since(began) - r.Acting
	r.Holders, r.Waiting = len(c.holders()), len(c.waiting())
	var conflicts []string
	conflicts, r.Answers = c.drain()
	r.Problems = append(r.Problems, conflicts...)
	return r
}

// settle repeats the check until nothing is wrong. The state has no event. With made partitions what is
// left of killed processes has a grace period.
func (c *clients) settle(ctx context.Context, b Batch, r *Reply) (problems []string) {
	for {
		var err error
		if b.Full {
			err = c.refresh(ctx)
		}
		if err == nil {
			problems, err = c.check(ctx, b, r)
		}
		r.Attempts++
		if err != nil {
			problems = []string{fmt.Sprintf("cannot read the state: %v", err)}
		}
		if len(problems) == 0 || ctx.Err() != nil || r.Attempts > maxAttempts && !b.Make {
			return problems
		}
		if b.Make && delay(ctx, settleInterval) != nil {
			return problems
		}
	}
}

// check reads the state once and returns its problems.
func (c *clients) check(ctx context.Context, b Batch, r *Reply) ([]string, error) {
	if b.Make {
		l, err := observeMake(ctx, c, b.Full)
		if b.Rest == nil {
			b.Rest = l.Hardware
		}
		r.Hardware = l.Hardware
		return l.Problems(b), err
	}
	l, err := c.observe(ctx, b.Full)
	r.Free = l.Free
	return l.Problems(b), err
}

// settleInterval is the time between two checks of made partitions.
const settleInterval = 100 * time.Millisecond

// maxAttempts is the limit for the checks of a batch. A check takes longer while the daemon is
// down.
const maxAttempts = 100

// refresh requests a new report from each holder.
func (c *clients) refresh(ctx context.Context) error {
	for _, p := range c.holders() {
		if _, err := io.WriteString(p.in, "report\n"); err != nil {
			continue // the process has ended
		}
		var s Report
		if err := p.out.Decode(&s); err == nil {
			c.mu.Lock()
			p.report = s
			c.mu.Unlock()
		}
	}
	return ctx.Err()
}
