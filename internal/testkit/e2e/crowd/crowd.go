// Package crowd is many users of partitions at once, in a test container: processes that
// ask dcm for leases, hold them, give them back and are killed. It keeps in mind what
// each of them can open by the kernel's own word, and compares that with what PID 1
// lists and with what dcm says.
//
// It runs inside for as long as a trial lasts, so that a step costs what dcm makes of it
// and no command line of the test's. What is to be done, and how often, the test says.
package crowd

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"time"
)

// Deed is what one user does.
type Deed string

// What users do. All but the first three are about somebody who has a lease.
const (
	Acquire  Deed = "acquire"
	Wait     Deed = "acquire, by who waits"
	Abort    Deed = "kill of who asks"
	Release  Deed = "release"
	Leave    Deed = "end"
	Kill     Deed = "kill of a process"
	KillUnit Deed = "kill of a scope"
	StopUnit Deed = "stop of a scope"
	GiveUp   Deed = "kill of who waits"
)

// Step is one deed of one user.
type Step struct {
	Do    Deed
	User  string        // who does it: a name
	Args  []string      // of dcm run
	Which int           // of those who have a lease, or wait; counted over from the first
	After time.Duration // the beginning of the batch
}

// Batch is what is done at once, and then looked at.
type Batch struct {
	Steps []Step
	Amid  string // a script for a shell, run beside the steps
	AtAll bool   // let things be as they are, whatever state that is
	Full  bool   // look at all that there is
	End   bool   // before anything else kill all who wait and who have a lease
	Parts int    // how many partitions there are
	Most  int    // that somebody asks for
}

// Reply is what has become of a batch.
type Reply struct {
	Answers  map[string]int // to those who asked for a lease
	Amid     string         // what the script said
	Problems []string
	Looks    int // until all was well
	Holders  int // who have a lease
	Waiting  int
	Free     int // partitions
	Doing    time.Duration
	Looking  time.Duration
}

// Client has a crowd do something.
type Client struct {
	conn net.Conn
	in   *json.Decoder
}

// Dial connects to where [Serve] listens.
func Dial(socket string) (*Client, error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return nil, err
	}
	return &Client{conn, json.NewDecoder(conn)}, nil
}

// Close lets everybody go home.
func (c *Client) Close() error { return c.conn.Close() }

// Do returns when the batch is over and looked at.
func (c *Client) Do(ctx context.Context, b Batch) (r Reply, err error) {
	defer context.AfterFunc(ctx, func() { c.conn.Close() })()
	if err = json.NewEncoder(c.conn).Encode(b); err == nil {
		err = c.in.Decode(&r)
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return r, fmt.Errorf("the crowd does not answer: %w", err)
	}
	return r, nil
}
