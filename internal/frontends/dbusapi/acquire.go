package dbusapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/godbus/dbus/v5"

	"dcm/internal/frontends/admission"
	"dcm/internal/frontends/status"
	"dcm/internal/linux/caller"
	"dcm/internal/sanitize"
)

// acquire grants a lease to the process that the bus reports as the caller.
func (h *handler) acquire(c call) ([]any, error) {
	var r Request
	if err := r.decode(c.body[0].(map[string]dbus.Variant)); err != nil {
		return nil, err
	}
	ctx := c.context()
	if r.Wait || c.who.uid != 0 { // other calls are too short to notice a disconnect
		var cancel context.CancelFunc
		ctx, cancel = h.whileConnected(c)
		defer cancel()
	}
	process, err := h.callerProcess(ctx, c)
	if err != nil {
		return nil, err
	}
	defer process.Close()
	by := c.caller()
	by.Process, by.ConnectionAge = process, connectionAge(c.sender, c.conn.Names())
	if !r.DryRun {
		if err := h.mayAcquire(c); err != nil {
			return nil, err
		}
	}
	if r.Wait && !r.DryRun && !c.waiting {
		leave, err := h.limiter.Wait(c.who.owner)
		if err != nil {
			return nil, toBusError(err)
		}
		defer leave()
		c.leave()
		c.received.Leave()
	}
	r.Queued = func(p QueuePosition) { sendPosition(c, p) }
	l, err := h.control.Leases.Acquire(ctx, by, r)
	if err != nil {
		if !r.DryRun {
			h.rejected(c, slog.LevelInfo, actionLease, err)
		}
		return nil, toBusError(err)
	}
	return []any{l.Unit, list(l.Partitions), l.Reason, list(l.Notes)}, nil
}

// callerProcess is process with an error for the caller.
func (h *handler) callerProcess(ctx context.Context, c call) (*caller.Process, error) {
	process, err := h.process(ctx, c)
	if err != nil {
		return nil, busError(errorDenied, fmt.Sprintf("cannot determine the caller: %v", sanitize.Error(err)))
	}
	return process, nil
}

// process returns the process that made the caller's connection. It returns an error if that process
// has ended, even if another process now uses the connection.
func (h *handler) process(ctx context.Context, c call) (*caller.Process, error) {
	if c.who.process != nil {
		return c.who.process, nil
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	who, err := credentialsOf(ctx, c.conn, c.sender)
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

// mayAcquire returns an error unless the caller may have a lease: root, a member of the
// configured group, or a user whom polkit authorises.
func (h *handler) mayAcquire(c call) error {
	if c.mayLease(h.control.Leases) {
		return nil
	}
	err := checkPolkit(c, actionLease, nil)
	if err != nil {
		h.rejected(c, slog.LevelWarn, actionLease, err)
	}
	return err
}

// mayLease reports whether the caller may have leases without a decision of polkit.
func (c call) mayLease(l LeaseService) bool { return c.who.uid == 0 || l.Member(c.who.groups) }

// wantsToWait reports whether the call may enter the queue.
func (c call) wantsToWait() bool { return c.flag("wait") && !c.flag("dry-run") }

// acquireKind returns the admission kind of a call of Acquire.
func (c call) acquireKind() admission.Kind {
	if c.flag("dry-run") {
		return admission.Query
	}
	if text, _ := c.option("make").(string); text != "" {
		return admission.Make
	}
	return admission.Lease
}

// flag returns a boolean option of a call whose options are not decoded yet.
func (c call) flag(name string) bool {
	set, _ := c.option(name).(bool)
	return set
}

func (c call) option(name string) any {
	if len(c.body) != 1 {
		return nil
	}
	options, _ := c.body[0].(map[string]dbus.Variant)
	return options[name].Value()
}

// enter moves the process that the bus reports as the caller into a lease.
func (h *handler) enter(c call) ([]any, error) {
	ctx, cancel := context.WithTimeout(c.context(), queryTimeout)
	defer cancel()
	process, err := h.callerProcess(ctx, c)
	if err != nil {
		return nil, err
	}
	defer process.Close()
	by := c.caller()
	by.Process = process
	partitions, err := h.control.Leases.Enter(ctx, by, c.body[0].(string))
	if err != nil {
		h.rejected(c, slog.LevelInfo, actionEnter, err)
		return nil, toBusError(err)
	}
	return []any{list(partitions)}, nil
}

func (h *handler) release(c call) ([]any, error) {
	ctx, cancel := context.WithTimeout(c.context(), queryTimeout)
	defer cancel()
	unit := c.body[0].(string)
	if err := h.control.Leases.Release(ctx, c.caller(), unit); err != nil {
		h.rejected(c, slog.LevelInfo, actionRelease, err)
		return nil, toBusError(err)
	}
	h.log.Info("lease released", "unit", unit, "uid", c.who.uid)
	return nil, nil
}

func (h *handler) extend(c call) ([]any, error) {
	ctx, cancel := context.WithTimeout(c.context(), queryTimeout)
	defer cancel()
	limit := time.Duration(min(c.body[1].(uint64), uint64(leaseTimeLimit.Microseconds()))) * time.Microsecond
	if err := h.control.Leases.Extend(ctx, c.caller(), c.body[0].(string), limit); err != nil {
		h.rejected(c, slog.LevelInfo, actionExtend, err)
		return nil, toBusError(err)
	}
	return nil, nil
}

// queuedSignal is sent to a caller that waits for a lease, and to no other connection.
const queuedSignal = "Queued"

// sendPosition sends a caller its position. Errors do not matter: the caller has disconnected.
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

// queue returns the wait queue to any caller.
func (h *handler) queue(call) ([]any, error) {
	text, err := json.Marshal(status.List[status.Queued](h.control.Queue.Queue()))
	return []any{string(text)}, toBusError(err)
}

func (h *handler) dequeue(c call) ([]any, error) {
	return nil, toBusError(h.control.Queue.Dequeue(c.caller(), int(c.body[0].(uint32))))
}
