// Package leasesoak runs many concurrent clients in a test container: processes that request
// leases, hold them, release them and are killed. It records which device nodes each client
// can open, and compares them with the units of PID 1 and with what dcm prints.
//
// It runs inside the container during a trial, so that a step needs no command of the
// test's. The test chooses the steps.
package leasesoak

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"time"
)

// Action is what one client does.
type Action string

// The actions. The first three start a client; the others are for one that has a lease or
// waits.
const (
	Acquire  Action = "acquire"
	Wait     Action = "acquire and wait"
	Abort    Action = "kill of a requester"
	Release  Action = "release"
	Leave    Action = "exit"
	Kill     Action = "kill of a holder"
	KillUnit Action = "kill of a scope"
	StopUnit Action = "stop of a scope"
	GiveUp   Action = "kill of a waiter"
)

// Step is one action of one client.
type Step struct {
	Do    Action
	User  string        // name of the user
	Args  []string      // arguments of dcm run
	Which int           // index of the holder or waiter, modulo their number
	After time.Duration // delay from the start of the batch
}

// Batch is a set of concurrent steps. The state is checked after them.
type Batch struct {
	Steps     []Step
	Script    string // shell script that runs concurrently with the steps
	Unchecked bool   // no check of the state after the steps
	Full      bool   // the check includes the commands of dcm
	End       bool   // kills all waiters and holders before the steps
	Serve     bool   // kills holders until no process waits, before End
	Parts     int    // number of partitions of the node
	Largest   int    // largest number of partitions in one request

	// Make is set if all leases make their partitions. Rest is then [Reply.Hardware] without leases.
	Make bool
	Rest []string
}

// Reply is the result of a batch.
type Reply struct {
	Answers  map[string]int // number of requests by result
	Output   string         // of the script
	Problems []string
	Attempts int // number of checks until the state was right
	Holders  int // clients with a lease
	Waiting  int // clients that wait for a lease
	Free     int // partitions
	Hardware []string
	Acting   time.Duration
	Checking time.Duration
}

// Conn is a connection to a server, see [Serve].
type Conn struct {
	conn net.Conn
	in   *json.Decoder
}

// Dial connects to the socket of [Serve].
func Dial(socket string) (*Conn, error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return nil, err
	}
	return &Conn{conn, json.NewDecoder(conn)}, nil
}

// Close kills all clients.
func (c *Conn) Close() error { return c.conn.Close() }

// Do runs a batch and returns its result.
func (c *Conn) Do(ctx context.Context, b Batch) (r Reply, err error) {
	defer context.AfterFunc(ctx, func() { c.conn.Close() })()
	if err = json.NewEncoder(c.conn).Encode(b); err == nil {
		err = c.in.Decode(&r)
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return r, fmt.Errorf("no answer of e2e-agent leasesoak: %w", err)
	}
	return r, nil
}
