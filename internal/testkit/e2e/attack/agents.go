package attack

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Agents makes calls on the agents' socket for so long, over as many connections as there
// may be, and prints how many were answered. A call asks for a profile out of a text with so
// many.
func Agents(socket, method, profiles, seconds string, out io.Writer) error {
	n, err := strconv.Atoi(profiles)
	if err != nil {
		return err
	}
	limit, err := strconv.Atoi(seconds)
	if err != nil {
		return err
	}
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "[profiles.q%d]\ncompute=\"CPX\"\n", i)
	}
	call, err := json.Marshal(map[string]any{
		"method": "org.deviceconfig.Agent1." + method, "parameters": map[string]string{"text": text.String(), "profile": "nosuch"},
	})
	if err != nil {
		return err
	}
	var answered atomic.Int64
	var all sync.WaitGroup
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(limit)*time.Second)
	defer cancel()
	for range atATime {
		all.Go(func() {
			for ctx.Err() == nil {
				answered.Add(callAgain(ctx, socket, append(call, 0)))
			}
		})
	}
	all.Wait()
	_, err = fmt.Fprintln(out, answered.Load())
	return err
}

// callAgain makes a call over one connection until it ends, and returns how often.
func callAgain(ctx context.Context, socket string, call []byte) (n int64) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return 0
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	in := bufio.NewReader(conn)
	for {
		if _, err := conn.Write(call); err != nil {
			return n
		}
		if _, err := in.ReadString(0); err != nil {
			return n
		}
		n++
	}
}
