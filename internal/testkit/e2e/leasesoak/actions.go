package leasesoak

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// do runs the steps and the script of a batch. It returns when each request without --wait is
// decided.
func (c *clients) do(ctx context.Context, b Batch) (output string, err error) {
	if b.Serve {
		if err := serveAll(ctx, c); err != nil {
			return "", err
		}
	}
	if b.End {
		if err := c.stopAll(ctx); err != nil {
			return "", err
		}
	}
	var wg sync.WaitGroup
	errs := make([]error, len(b.Steps))
	for i, s := range b.Steps {
		wg.Go(func() {
			if errs[i] = delay(ctx, s.After); errs[i] == nil {
				errs[i] = c.step(ctx, s)
			}
		})
	}
	if b.Script != "" {
		wg.Go(func() {
			said, _ := exec.CommandContext(ctx, "sh", "-c", b.Script).CombinedOutput() // the script checks its own exit status
			output = string(said)
		})
	}
	wg.Wait()
	return output, errors.Join(errs...)
}

// delay varies the order of concurrent steps.
func delay(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *clients) step(ctx context.Context, s Step) error {
	switch s.Do {
	case Acquire, Wait:
		p, err := c.start(s)
		if err != nil || s.Do == Wait {
			return err
		}
		return until(ctx, p.decided)
	case Abort:
		p, err := c.start(s)
		if err != nil {
			return err
		}
		if err := delay(ctx, s.After); err != nil {
			return err
		}
		return p.gone(ctx, p.kill())
	case GiveUp:
		if all := c.waiting(); len(all) > 0 {
			p := all[s.Which%len(all)]
			return p.gone(ctx, p.kill())
		}
		return nil
	}
	if all := c.holders(); len(all) > 0 {
		p := all[s.Which%len(all)]
		return p.gone(ctx, p.end(ctx, s))
	}
	return nil
}

// end ends a client's lease by an action.
func (p *client) end(ctx context.Context, s Step) error {
	unit := p.report.Unit()
	switch s.Do {
	case Leave:
		return ignore(p.in.Close()) // may be closed already
	case Kill:
		return p.kill()
	case KillUnit:
		return systemctl(ctx, "kill", "--signal=KILL", unit)
	case StopUnit:
		return systemctl(ctx, "stop", unit)
	case Release:
		return p.release(ctx, unit, s.User)
	}
	return fmt.Errorf("unknown action %q", s.Do)
}

func (p *client) kill() error {
	if err := p.cmd.Process.Signal(syscall.SIGKILL); err != nil && !isClosed(p.ended) {
		return ignore(err) // it has ended and is not reaped yet
	}
	return nil
}

func ignore(error) error { return nil }

// release runs dcm lease release, as root or as the user of the lease.
func (p *client) release(ctx context.Context, unit, by string) error {
	if by != "root" {
		by = p.user
	}
	as, err := credential(by)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "dcm", "release", unit)
	cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Credential: as}
	said, err := cmd.CombinedOutput()
	if err != nil && p.alive() {
		return fmt.Errorf("%s releases %s: %w: %s", by, unit, err, said)
	}
	return nil
}

// systemctl runs systemctl for a unit that may not exist any more.
func systemctl(ctx context.Context, args ...string) error {
	said, err := exec.CommandContext(ctx, "systemctl", args...).CombinedOutput()
	if err != nil && !strings.Contains(string(said), "not loaded") && !strings.Contains(string(said), "No such process") {
		return fmt.Errorf("systemctl %s: %w: %s", args, err, said)
	}
	return nil
}

// gone waits until a client has ended, unless the action failed.
func (p *client) gone(ctx context.Context, err error) error {
	if err != nil {
		return err
	}
	return until(ctx, p.ended)
}

func until(ctx context.Context, c <-chan struct{}) error {
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("a client neither got an answer nor ended: %w", ctx.Err())
	}
}

// stopAll kills all clients. Waiters come first: otherwise they would be granted leases.
func (c *clients) stopAll(ctx context.Context) error {
	for _, list := range []func() []*client{c.waiting, c.holders, c.waiting, c.holders} {
		all := list()
		for _, p := range all {
			if err := p.kill(); err != nil {
				return err
			}
		}
		for _, p := range all {
			if err := until(ctx, p.ended); err != nil {
				return err
			}
		}
	}
	return nil
}
