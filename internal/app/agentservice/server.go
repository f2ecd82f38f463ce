package agentservice

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"dcm/internal/engine/host"
	"dcm/internal/frontends/admission"
	"dcm/internal/frontends/agent"
	"dcm/internal/frontends/dbusapi"
	"dcm/internal/frontends/status"
	"dcm/internal/frontends/varlink"
	"dcm/internal/gpu"
	"dcm/internal/linux/unitname"
	"dcm/internal/sanitize"
)

// Run answers on the socket that systemd passes, until ctx ends or no caller has been connected for
// the idle timeout.
func Run(ctx context.Context, h *host.Host, log *slog.Logger) error {
	l, err := inheritedListener()
	if err != nil {
		return err
	}
	s := &varlink.Server{
		Info:       varlink.Info{Vendor: "dcm authors", Product: "dcm", Version: h.Version},
		Interfaces: []varlink.Interface{agent.Interface(newServer(h, log), agentLimiter())},
		Log:        log,
	}
	return s.Serve(ctx, l)
}

// inheritedListener returns the socket that systemd passes, see sd_listen_fds(3).
func inheritedListener() (*net.UnixListener, error) {
	const first = 3
	if sanitize.Env("LISTEN_PID") != strconv.Itoa(os.Getpid()) || sanitize.Env("LISTEN_FDS") != "1" {
		return nil, fmt.Errorf("no socket was passed. hint: start %s", unitname.AgentSocket)
	}
	unix.CloseOnExec(first)
	file := os.NewFile(first, unitname.AgentSocket)
	defer file.Close()
	l, err := net.FileListener(file)
	if err != nil {
		return nil, fmt.Errorf("cannot use the socket that systemd passes: %w", err)
	}
	own, ok := l.(*net.UnixListener)
	if !ok {
		return nil, errors.Join(errors.New("the socket that systemd passes is not of AF_UNIX"), l.Close())
	}
	return own, nil
}

// server implements [agent.Host].
type server struct {
	host     *host.Host
	node     *gpu.Node // reads sysfs only, so that a call starts no program
	log      *slog.Logger
	changing chan struct{} // capacity 1: held during a change

	files sync.Mutex // held while the configuration, which may be large, is read
}

// agentLimiter admits the calls of agents. Root has no exemption, since it is usually the root of a
// container.
func agentLimiter() *admission.Limiter {
	rate := admission.Rate{Burst: 16, Interval: time.Second / 2}
	return admission.New(admission.Limits{
		Calls: 16, AllCalls: 16, // the limit of connections
		Rates: map[admission.Kind]admission.Rate{admission.Query: rate, admission.Change: rate, admission.Status: rate},
	})
}

func newServer(h *host.Host, log *slog.Logger) *server {
	return &server{host: h, node: host.OpenNode(h, nil), log: log, changing: make(chan struct{}, 1)}
}

// Account returns the daemon's status.
func (a *server) Account(ctx context.Context) (json.RawMessage, error) {
	c, err := dialDaemon(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return account(ctx, c)
}

// dialDaemon connects to the daemon's bus.
func dialDaemon(ctx context.Context) (*dbusapi.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, host.DialTimeout)
	defer cancel()
	c, err := dbusapi.Dial(ctx, dbusapi.SystemBus)
	if err != nil {
		return nil, noAnswer(err)
	}
	return c, nil
}

func noAnswer(err error) error {
	return &agent.FailedError{Reason: fmt.Sprintf("%s does not answer: %v", unitname.Daemon, err), Hint: "systemctl start dcm", Undone: true}
}

func account(ctx context.Context, c *dbusapi.Client) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, status.PartTimeout+host.DialTimeout)
	defer cancel()
	text, err := c.Account(ctx)
	if err != nil {
		return nil, noAnswer(err)
	}
	return json.RawMessage(text), nil
}

// Follow continues after a restart of the daemon.
func (a *server) Follow(ctx context.Context, send func(json.RawMessage) error) error {
	c, err := dialDaemon(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	changed, err := c.Changes(ctx)
	if err != nil {
		return noAnswer(err)
	}
	return follow(ctx, changed, func(ctx context.Context) (json.RawMessage, error) { return account(ctx, c) }, send)
}

// retryDelay is the delay before a failed status query is repeated, since there may be no signal of
// a change.
const retryDelay = 15 * time.Second

// follow calls send with each status that differs from the previous one.
func follow(ctx context.Context, changed <-chan struct{}, query func(context.Context) (json.RawMessage, error), send func(json.RawMessage) error) error {
	var last []byte
	for {
		now, err := query(ctx)
		if err != nil && last == nil {
			return err
		}
		if content := contentOf(now); err == nil && !bytes.Equal(content, last) {
			last = content
			if err := send(now); err != nil {
				return err
			}
		}
		var again <-chan time.Time
		if err != nil {
			again = time.After(retryDelay)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-again:
		case _, ok := <-changed:
			if !ok {
				return noAnswer(errors.New("the connection to the bus was closed"))
			}
		}
	}
}

// contentOf returns an account without its time.
func contentOf(text json.RawMessage) []byte {
	var all map[string]json.RawMessage
	if json.Unmarshal(text, &all) != nil {
		return text
	}
	delete(all, "taken")
	out, err := json.Marshal(all)
	if err != nil {
		return text
	}
	return out
}
