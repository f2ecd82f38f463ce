package dbusapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"

	"dcm/internal/frontends/admission"
	"dcm/internal/frontends/status"
	"dcm/internal/linux/caller"
	"dcm/internal/sanitize"
)

// LeaseService gives partitions to processes.
type LeaseService interface {
	// Member tells whether one of these groups is the one whose members may have
	// leases without being asked about.
	Member(groups []uint32) bool
	// Acquire moves the caller's process into a lease. ctx ends when the caller goes
	// away. An error that wraps a [InsufficientError] passes when others have ended.
	Acquire(ctx context.Context, who Caller, w Request) (Lease, error)
	// Release ends a lease: root any, a user his own.
	Release(ctx context.Context, who Caller, lease string) error
	// Queue lists the requests that wait for a lease, in the order in which they are served.
	Queue() []status.Queued
	// Dequeue removes a request from the queue: root any, a user the user's own.
	Dequeue(who Caller, id int) error
}

// Request is what somebody asks for.
type Request struct {
	Partitions, GPUs int
	Place            string // "" for the usual one
	Vendor, Mode     string // whose they are, and which: "nvidia", "3g.40gb"; "" for any
	Exclusive        bool
	Share            int           // how many may have the same partitions; 0: nobody else
	Wait             bool          // until there is enough
	DryRun           bool          // tell what would be given
	Time             time.Duration // after which the lease ends; 0 for none
	Command          string        // for people

	// Queued, if not nil, is called when the request waits, and when its position in the
	// queue has changed.
	Queued func(QueuePosition)
}

// QueuePosition is where a request is in the queue.
type QueuePosition struct {
	At, Of int // the first is 1
	Reason string
}

// Lease is what was given.
type Lease struct {
	Unit       string // "" of a dry run
	Partitions []string
	Reason     string
	Notes      []string
}

// InsufficientError is that there is not enough free now.
type InsufficientError struct{ Err error }

func (e *InsufficientError) Error() string { return e.Err.Error() }
func (e *InsufficientError) Unwrap() error { return e.Err }

// ImpossibleError is that there will not be enough, even when all leases have ended.
type ImpossibleError struct{ Err error }

func (e *ImpossibleError) Error() string { return e.Err.Error() }
func (e *ImpossibleError) Unwrap() error { return e.Err }

// option is one that Acquire takes; to points to where it goes.
type option struct {
	name string
	to   any
}

// options of a call. The numbers come as u, a time as t in microseconds.
func (w *Request) options() []option {
	return []option{
		{"partitions", &w.Partitions}, {"gpus", &w.GPUs}, {"place", &w.Place}, {"vendor", &w.Vendor}, {"mode", &w.Mode}, {"exclusive", &w.Exclusive}, {"share", &w.Share},
		{"wait", &w.Wait}, {"dry-run", &w.DryRun}, {"time", &w.Time}, {"command", &w.Command},
	}
}

// encode are the options of a call, without those that say nothing.
func (w Request) encode() map[string]dbus.Variant {
	out := make(map[string]dbus.Variant)
	for _, o := range w.options() {
		switch v := o.to.(type) {
		case *int:
			if *v > 0 {
				out[o.name] = dbus.MakeVariant(uint32(*v))
			}
		case *string:
			if *v != "" {
				out[o.name] = dbus.MakeVariant(*v)
			}
		case *bool:
			if *v {
				out[o.name] = dbus.MakeVariant(true)
			}
		case *time.Duration:
			if *v > 0 {
				out[o.name] = dbus.MakeVariant(uint64(v.Microseconds()))
			}
		}
	}
	return out
}

// decode takes the options of a call in. Any of them that is not known is an error: it
// might be what the caller relies on.
func (w *Request) decode(values map[string]dbus.Variant) error {
	known := w.options()
	for name, v := range values {
		i := slices.IndexFunc(known, func(o option) bool { return o.name == name })
		if i < 0 || !known[i].take(v.Value()) {
			return busError(errorArguments, fmt.Sprintf("Acquire takes no option %q of type %q", sanitize.Text(name), v.Signature()))
		}
	}
	switch {
	case w.Exclusive && w.Share > 0:
		return busError(errorArguments, "a lease is exclusive or shared, not both")
	case w.Partitions > 0 && w.GPUs > 0:
		return busError(errorArguments, "partitions are asked for, or whole GPUs, not both")
	case w.Partitions == 0 && w.GPUs == 0:
		w.Partitions = 1
	}
	return nil
}

// mostAsked is more than any host has partitions, longestLease than anybody waits for.
const (
	maxCount       = 1 << 16
	leaseTimeLimit = 10 * 365 * 24 * time.Hour
)

func (o option) take(value any) bool {
	switch v := value.(type) {
	case uint32:
		to, ok := o.to.(*int)
		if ok {
			*to = int(min(v, maxCount))
		}
		return ok
	case string:
		to, ok := o.to.(*string)
		if ok {
			*to = sanitize.Text(v)
		}
		return ok
	case bool:
		to, ok := o.to.(*bool)
		if ok {
			*to = v
		}
		return ok
	case uint64:
		to, ok := o.to.(*time.Duration)
		if ok {
			*to = time.Duration(min(v, uint64(leaseTimeLimit.Microseconds()))) * time.Microsecond
		}
		return ok
	}
	return false
}

// acquire is for the caller's own process. Which process that is the bus tells; it is
// identified before anything is done.
func (s *Service) acquire(c call) ([]any, error) {
	var w Request
	if err := w.decode(c.body[0].(map[string]dbus.Variant)); err != nil {
		return nil, err
	}
	ctx := s.ctx(c)
	if w.Wait || c.who.uid != 0 { // else it is over before the bus had told who has gone
		var cancel context.CancelFunc
		ctx, cancel = s.whileConnected(c)
		defer cancel()
	}
	process, err := s.process(ctx, c)
	if err != nil {
		return nil, busError(errorDenied, fmt.Sprintf("cannot determine the caller: %v", sanitize.Error(err)))
	}
	defer process.Close()
	who := c.caller()
	who.Process, who.ConnectionAge = process, connectionAge(c.sender, c.conn.Names())
	if !w.DryRun {
		if err := s.mayAcquire(c); err != nil {
			return nil, err
		}
	}
	if w.Wait && !w.DryRun && !c.waiting {
		quit, err := s.limiter.Wait(c.who.owner)
		if err != nil {
			return nil, toBusError(err)
		}
		defer quit()
		c.leave()
	}
	w.Queued = func(p QueuePosition) { sendPosition(c, p) }
	l, err := s.control.Acquire(ctx, who, w)
	if err != nil {
		if !w.DryRun {
			s.rejected(c, slog.LevelInfo, actionLease, err)
		}
		return nil, toBusError(err)
	}
	return []any{l.Unit, list(l.Partitions), l.Reason, list(l.Notes)}, nil
}

// process returns the caller's process, which is not the one of a connection that was handed
// on after its maker had ended.
func (s *Service) process(ctx context.Context, c call) (*caller.Process, error) {
	if c.who.process != nil {
		return c.who.process, nil
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	who, err := credentialsOf(ctx, s.connOf(c), c.sender)
	switch {
	case err != nil:
		return nil, err
	case who.process == nil && who.pid == 0:
		return nil, errors.New("the bus does not report its process")
	case who.process == nil:
		return nil, fmt.Errorf("process %d: %w", who.pid, caller.ErrEnded)
	}
	return who.process, nil
}

// connectionAge orders credentialsCache by the age of their connections, as far as these were there before
// dcm's own: only then can one have asked the dcm before. The bus numbers connections as
// they come (":1.57"), gives no number twice, and nobody has a say in it.
func connectionAge(sender string, own []string) uint64 {
	if len(own) == 0 {
		return 0
	}
	theirs, ours := connectionNumber(sender), connectionNumber(own[0])
	if theirs >= ours {
		return 0
	}
	return theirs
}

// connectionNumber is 0 for a name that is not of that form.
func connectionNumber(name string) uint64 {
	first, second, ok := strings.Cut(strings.TrimPrefix(name, ":"), ".")
	major, err := strconv.ParseUint(first, 10, 31)
	minor, also := strconv.ParseUint(second, 10, 32)
	if !ok || err != nil || also != nil {
		return 0
	}
	return major<<32 | minor
}

// mayAcquire returns an error unless the caller may have a lease: root, the members of a
// group, and whom polkit lets.
func (s *Service) mayAcquire(c call) error {
	if s.member(c) {
		return nil
	}
	err := checkPolkit(c, actionLease, nil)
	if err != nil {
		s.rejected(c, slog.LevelWarn, actionLease, err)
	}
	return err
}

// member tells whether somebody may have leases without anybody being asked.
func (s *Service) member(c call) bool {
	return c.who.uid == 0 || s.control.Member(c.who.groups)
}

// wantsToWait tells of a call that wants to stand in line.
func (c call) wantsToWait() bool { return c.flag("wait") && !c.flag("dry-run") }

// acquireKind is the kind of a call of Acquire.
func (c call) acquireKind() admission.Kind {
	if c.flag("dry-run") {
		return admission.Query
	}
	return admission.Lease
}

// flag returns an option of a call that has some, before they were judged.
func (c call) flag(name string) bool {
	if len(c.body) != 1 {
		return false
	}
	options, _ := c.body[0].(map[string]dbus.Variant)
	set, _ := options[name].Value().(bool)
	return set
}

// whileConnected is the context of a call that nobody wants answered when the caller has
// gone. The call does not wait for the bus to be told of that, before nor behind it.
func (s *Service) whileConnected(c call) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(s.ctx(c))
	rule := []dbus.MatchOption{dbus.WithMatchSender(busName), dbus.WithMatchInterface(busName),
		dbus.WithMatchMember("NameOwnerChanged"), dbus.WithMatchArg(0, c.sender)}
	heard := make(chan *dbus.Signal, 1) // the library keeps what does not fit
	c.conn.Signal(heard)
	go func() {
		defer c.conn.RemoveSignal(heard)
		defer cancel()
		if c.conn.AddMatchSignal(rule...) != nil {
			return
		}
		awaitDisconnect(ctx, c, heard)
		cancel()
		_ = c.conn.RemoveMatchSignal(rule...) // the connection is gone, or knows it
	}()
	return ctx, cancel
}

// awaitDisconnect returns when the caller has gone, or ctx has ended. The bus is queried once: every
// caller that waits hears of the ends of all others.
func awaitDisconnect(ctx context.Context, c call, heard <-chan *dbus.Signal) {
	var yes bool
	if err := c.conn.BusObject().CallWithContext(ctx, busName+".NameHasOwner", 0, c.sender).Store(&yes); err != nil || !yes {
		return
	}
	for {
		select {
		case s, open := <-heard:
			if !open || hasDisconnected(s, c.sender) {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// hasDisconnected reports whether a signal says that a connection has ended. The bus gives the unique
// name of a connection to no other one.
func hasDisconnected(s *dbus.Signal, sender string) bool {
	return s.Name == busName+".NameOwnerChanged" && len(s.Body) == 3 && s.Body[0] == sender && s.Body[2] == ""
}

func (s *Service) release(c call) ([]any, error) {
	ctx, cancel := context.WithTimeout(s.ctx(c), queryTimeout)
	defer cancel()
	unit := c.body[0].(string)
	if err := s.control.Release(ctx, c.caller(), unit); err != nil {
		s.rejected(c, slog.LevelInfo, actionRelease, err)
		return nil, toBusError(err)
	}
	s.log.Info("a lease was released", "unit", unit, "uid", c.who.uid)
	return nil, nil
}

// queuedSignal is sent to a caller that waits for a lease, and to no other connection.
const queuedSignal = "Queued"

// sendPosition sends a caller its position. A caller that has gone misses nothing.
func sendPosition(c call, p QueuePosition) {
	_ = c.conn.SendWithContext(c.conn.Context(), &dbus.Message{
		Type: dbus.TypeSignal,
		Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldDestination: dbus.MakeVariant(c.sender),
			dbus.FieldPath:        dbus.MakeVariant(Path),
			dbus.FieldInterface:   dbus.MakeVariant(Interface),
			dbus.FieldMember:      dbus.MakeVariant(queuedSignal),
			dbus.FieldSignature:   dbus.MakeVariant(dbus.SignatureOf(uint32(0), uint32(0), "")),
		},
		Body: []any{uint32(p.At), uint32(p.Of), p.Reason},
	}, nil)
}

// queue is for everyone.
func (s *Service) queue(call) ([]any, error) {
	text, err := json.Marshal(status.List[status.Queued](s.control.Queue()))
	return []any{string(text)}, toBusError(err)
}

func (s *Service) dequeue(c call) ([]any, error) {
	return nil, toBusError(s.control.Dequeue(c.caller(), int(c.body[0].(uint32))))
}

// Queue returns the requests that wait for a lease, in JSON.
func (c *Client) Queue(ctx context.Context) (text string, err error) {
	err = c.conn.Object(Name, Path).CallWithContext(ctx, Interface+".Queue", dbus.FlagNoAutoStart).Store(&text)
	return text, fromBusError(err)
}

// Dequeue removes a request from the queue.
func (c *Client) Dequeue(ctx context.Context, id uint32) error {
	return fromBusError(c.call(ctx, "Dequeue", id).Err)
}

// onPosition calls tell for each position that the daemon sends to this connection, until
// stop is called.
func (c *Client) onPosition(tell func(QueuePosition)) (stop func()) {
	heard := make(chan *dbus.Signal, 16) // what does not fit is out of date
	c.conn.Signal(heard)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case s, open := <-heard:
				if !open {
					return
				}
				var at, of uint32
				var reason string
				if s.Name == Interface+"."+queuedSignal && dbus.Store(s.Body, &at, &of, &reason) == nil {
					tell(QueuePosition{int(at), int(of), sanitize.Text(reason)})
				}
			case <-done:
				return
			}
		}
	}()
	return func() { c.conn.RemoveSignal(heard); close(done); <-ended }
}

// Acquire moves this process into a lease, and returns when it is in it.
func (c *Client) Acquire(ctx context.Context, w Request) (l Lease, err error) {
	if w.Queued != nil {
		defer c.onPosition(w.Queued)()
	}
	err = c.call(ctx, "Acquire", w.encode()).Store(&l.Unit, &l.Partitions, &l.Reason, &l.Notes)
	return l, fromBusError(err)
}

// AwaitName returns when dcm is on the bus, again or still.
func (c *Client) AwaitName(ctx context.Context) error {
	rule := []dbus.MatchOption{dbus.WithMatchSender(busName), dbus.WithMatchInterface(busName),
		dbus.WithMatchMember("NameOwnerChanged"), dbus.WithMatchArg(0, Name)}
	heard := make(chan *dbus.Signal, 1) // what does not fit was no news
	c.conn.Signal(heard)
	defer c.conn.RemoveSignal(heard)
	if err := c.conn.AddMatchSignalContext(ctx, rule...); err != nil {
		return err
	}
	for {
		var there bool
		if err := c.conn.BusObject().CallWithContext(ctx, busName+".NameHasOwner", 0, Name).Store(&there); err != nil || there {
			return err
		}
		select {
		case <-heard:
		case <-c.conn.Context().Done():
			return dbus.ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Release ends a lease.
func (c *Client) Release(ctx context.Context, lease string) error {
	return fromBusError(c.call(ctx, "Release", lease).Err)
}

// IsImpossible reports whether there will not be enough at another time either.
func IsImpossible(err error) bool {
	_, ok := errors.AsType[*ImpossibleError](err)
	return ok
}

// IsInsufficient tells whether there was not enough, which passes.
func IsInsufficient(err error) bool {
	_, ok := errors.AsType[*InsufficientError](err)
	return ok
}
