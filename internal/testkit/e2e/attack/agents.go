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

// Agents makes calls on the agents' socket for a number of seconds, over the maximal number
// of connections, and prints how many replies it got. Each call sends a configuration text with the
// given number of profiles and selects one of them.
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
	var replies atomic.Int64
	var all sync.WaitGroup
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(limit)*time.Second)
	defer cancel()
	for range concurrent {
		all.Go(func() {
			for ctx.Err() == nil {
				replies.Add(callRepeatedly(ctx, socket, append(call, 0)))
			}
		})
	}
	all.Wait()
	_, err = fmt.Fprintln(out, replies.Load())
	return err
}

// callRepeatedly makes a call over one connection until the connection ends, and returns the
// number of replies.
func callRepeatedly(ctx context.Context, socket string, call []byte) (n int64) {
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
