package attack

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/godbus/dbus/v5"
)

// Flood makes calls of one kind for a number of seconds, concurrently, and prints how many
// returned.
func Flood(kind string, seconds string, out io.Writer) error {
	limit, err := strconv.Atoi(seconds)
	if err != nil {
		return err
	}
	method, arg, err := call(kind)
	if err != nil {
		return err
	}
	var args []any
	if arg != nil {
		args = append(args, arg)
	}
	conn, err := dbus.ConnectSystemBus()
	if err != nil {
		return err
	}
	defer conn.Close()
	var returned atomic.Int64
	var all sync.WaitGroup
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(limit)*time.Second)
	defer cancel()
	n := concurrent
	if kind == "wait" {
		n = waiters
	}
	for range n {
		all.Go(func() {
			for ctx.Err() == nil {
				conn.Object(name, object).CallWithContext(ctx, name+"."+method, 0, args...)
				returned.Add(1)
			}
		})
	}
	all.Wait()
	_, err = fmt.Fprintln(out, returned.Load())
	return err
}

func call(kind string) (method string, arg any, err error) {
	switch kind {
	case "use":
		return "Use", "none", nil
	case "plan":
		return "Plan", "nosuch", nil
	case "dry-run":
		return "Acquire", map[string]dbus.Variant{"dry-run": dbus.MakeVariant(true)}, nil
	case "acquire":
		return "Acquire", map[string]dbus.Variant{"partitions": dbus.MakeVariant(uint32(60000))}, nil
	case "release":
		return "Release", strings.Repeat("x", 1000), nil
	case "wait": // each call waits until its caller disconnects
		return "Acquire", map[string]dbus.Variant{"partitions": dbus.MakeVariant(uint32(58)), "wait": dbus.MakeVariant(true)}, nil
	case "account", "history", "usage", "queue":
		return strings.ToUpper(kind[:1]) + kind[1:], nil, nil
	}
	return "", nil, fmt.Errorf("unknown call (found %q)", kind)
}
