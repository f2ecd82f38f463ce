package change

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"dcm/internal/app/cli/client"
	"dcm/internal/app/cli/console"
	"dcm/internal/app/leaseservice"
	"dcm/internal/app/plan"
	"dcm/internal/engine/apply"
	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/exitcode"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/drain"
	"dcm/internal/linux/filelock"
)

// applyIdle selects and applies when no lease blocks the change. New leases, if they are possible, are
// waited for too.
func applyIdle(ctx context.Context, h *host.Host, con *console.Console, given []string, clearing bool, how manner) error {
	if len(given) > 0 && given[0] != config.None {
		if err := checkGiven(ctx, h, con, given); err != nil {
			return err
		}
	}
	if len(given) > 0 || clearing {
		if err := h.NeedRoot("applying a profile until reboot"); err != nil {
			return err
		}
	}
	if _, err := how.of(ctx, h, given, clearing); err != nil {
		return err
	}
	cfg, err := h.Config()
	if err != nil {
		return err
	}
	w := idleWait{host: h, con: con, how: how}
	defer func() { w.end() }()
	if cfg.Rounds() {
		return w.applyEach(ctx, given, clearing)
	}
	return w.applyAll(ctx, given, clearing)
}

// idleWait is a wait for the end of leases. While root waits, no new leases are given.
type idleWait struct {
	host  *host.Host
	con   *console.Console
	how   manner
	drain *drain.Drain // nil if there is none
}

// applyAll waits until no lease is left, and then selects and applies.
func (w *idleWait) applyAll(ctx context.Context, given []string, clearing bool) error {
	if err := w.limit(nil); err != nil {
		return unchanged(err)
	}
	for {
		err := leaseservice.AwaitIdle(ctx, w.host, func(list []gpu.Holder) { w.con.Println(waitingFor(leases(list))) })
		if ctx.Err() != nil {
			return errors.New("nothing was changed: interrupted while waiting for leases")
		}
		if err != nil {
			return err
		}
		if err := applyNow(ctx, w.host, w.con, given, clearing, w.how); err == nil || len(host.LeaseHolders(w.host)) == 0 {
			return err
		}
	}
}

// applyEach selects and applies, and again after the end of each lease that blocks GPUs, until no lease
// blocks one.
func (w *idleWait) applyEach(ctx context.Context, given []string, clearing bool) error {
	err := applyNow(ctx, w.host, w.con, given, clearing, w.how)
	reported := ""
	for exitcode.Code(err) == exitcode.Transient {
		leases, text, unread := w.blocking()
		if unread != nil || len(leases) == 0 {
			return err
		}
		if err := w.limitToRest(ctx); err != nil {
			return err
		}
		if text != reported {
			w.con.Println(text)
		}
		reported = text
		if err := leaseservice.AwaitEnd(ctx, w.host, leases); ctx.Err() != nil {
			return errors.New("interrupted while waiting for leases; dcm changes the GPUs that they block when they end, see 'dcm status'")
		} else if err != nil {
			return err
		}
		err = w.applyRest(ctx, given)
	}
	return err
}

// blocking returns the leases that block the change, as the daemon has found them, and a text that
// names them.
func (w *idleWait) blocking() (leases []string, text string, err error) {
	state, err := runstate.ReadState(w.host.Runtime()) // the bus does not show the holders
	if err != nil || state == nil {
		return nil, "", err
	}
	list := slices.DeleteFunc(state.Holders, func(l runstate.Holder) bool { return l.Lessee == "" })
	for _, l := range list {
		leases = append(leases, l.Unit)
	}
	return leases, waitingFor(list), nil
}

// limitToRest prevents new leases of the GPUs that are still to be changed.
func (w *idleWait) limitToRest(ctx context.Context) error {
	_, d, _, err := plan.Compare(ctx, w.host, client.FromDaemon(w.host))
	if err != nil {
		return err
	}
	return w.limit(changedGPUs(d))
}

// changedGPUs returns the GPUs whose partitions a change replaces; nil: all.
func changedGPUs(d apply.Difference) []partition.Address {
	var gpus []partition.Address
	if d.SingleGPUs() {
		for _, c := range d.Steps.Changes(d.GPUs) {
			if !c.KeepsUsers {
				gpus = append(gpus, c.GPU)
			}
		}
	}
	return gpus
}

// limit prevents new leases of the GPUs, of all if there are none given. Only root can do so.
func (w *idleWait) limit(gpus []partition.Address) error {
	if os.Geteuid() != 0 {
		return nil
	}
	if w.drain != nil {
		return w.drain.Limit(gpus)
	}
	d, err := drain.Start(w.host, append([]string{"dcm"}, os.Args[1:]...), gpus)
	if errors.Is(err, filelock.ErrLocked) {
		return exitcode.With(exitcode.Transient, fmt.Errorf("%s waits already", drain.Now(w.host).Holder))
	}
	w.drain = d
	return err
}

func (w *idleWait) end() {
	if w.drain != nil {
		w.drain.End()
	}
}

// applyRest applies what was selected before. It fails if another profile was selected since.
func (w *idleWait) applyRest(ctx context.Context, given []string) error {
	if len(given) == 0 {
		return applyNow(ctx, w.host, w.con, nil, false, w.how)
	}
	return follow(ctx, w.host, w.con, given[0], w.how, func() error { return nil })
}

func unchanged(err error) error {
	return exitcode.With(exitcode.Code(err), fmt.Errorf("nothing was changed: %w", err))
}

func leases(list []gpu.Holder) []runstate.Holder {
	out := make([]runstate.Holder, len(list))
	for i, l := range list {
		out[i] = runstate.Holder{Unit: l.Unit, Lessee: l.LeaseOwner}
	}
	return out
}

// waitingFor names the leases that are waited for.
func waitingFor(leases []runstate.Holder) string {
	names := make([]string, len(leases))
	for i, l := range leases {
		names[i] = fmt.Sprintf("%s (%s)", l.Unit, l.Lessee)
	}
	return "Waiting for the end of " + strings.Join(names, ", ") + "."
}
