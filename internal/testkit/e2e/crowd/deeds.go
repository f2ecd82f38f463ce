package crowd

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

// do has all that a batch is made of done, and returns when everybody has an answer who
// does not wait for it.
func (c *people) do(ctx context.Context, b Batch) (amid string, err error) {
	if b.End {
		if err := c.end(ctx); err != nil {
			return "", err
		}
	}
	var wg sync.WaitGroup
	errs := make([]error, len(b.Steps))
	for i, s := range b.Steps {
		wg.Go(func() {
			if errs[i] = moment(ctx, s.After); errs[i] == nil {
				errs[i] = c.step(ctx, s)
			}
		})
	}
	if b.Amid != "" {
		wg.Go(func() {
			said, _ := exec.CommandContext(ctx, "sh", "-c", b.Amid).CombinedOutput() // how it ends is for the script
			amid = string(said)
		})
	}
	wg.Wait()
	return amid, errors.Join(errs...)
}

// moment lets time pass, so that what is done at once is not always so in one order.
func moment(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *people) step(ctx context.Context, s Step) error {
	switch s.Do {
	case Acquire, Wait:
		p, err := c.come(s)
		if err != nil || s.Do == Wait {
			return err
		}
		return until(ctx, p.answered)
	case Abort:
		p, err := c.come(s)
		if err != nil {
			return err
		}
		if err := moment(ctx, s.After); err != nil {
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
		return p.gone(ctx, p.part(ctx, s))
	}
	return nil
}

// part ends somebody's lease in one of the ways that there are.
func (p *person) part(ctx context.Context, s Step) error {
	unit := p.said.Unit()
	switch s.Do {
	case Leave:
		return ignore(p.in.Close()) // twice at once
	case Kill:
		return p.kill()
	case KillUnit:
		return systemctl(ctx, "kill", "--signal=KILL", unit)
	case StopUnit:
		return systemctl(ctx, "stop", unit)
	case Release:
		return p.release(ctx, unit, s.User)
	}
	return fmt.Errorf("nobody can do %q", s.Do)
}

func (p *person) kill() error {
	if err := p.cmd.Process.Signal(syscall.SIGKILL); err != nil && !over(p.ended) {
		return ignore(err) // it has ended and is about to be heard of
	}
	return nil
}

func ignore(error) error { return nil }

// release is done by who has it, or by root.
func (p *person) release(ctx context.Context, unit, by string) error {
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
	if err != nil && !over(p.ended) && !strings.Contains(string(said), "there is no lease") {
		return fmt.Errorf("%s releases %s: %w: %s", by, unit, err, said)
	}
	return nil
}

// systemctl does something to a unit, which may be gone.
func systemctl(ctx context.Context, args ...string) error {
	said, err := exec.CommandContext(ctx, "systemctl", args...).CombinedOutput()
	if err != nil && !strings.Contains(string(said), "not loaded") && !strings.Contains(string(said), "No such process") {
		return fmt.Errorf("systemctl %s: %w: %s", args, err, said)
	}
	return nil
}

// gone waits until somebody has ended, and for as long as it takes only if what was to
// end him was done.
func (p *person) gone(ctx context.Context, err error) error {
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
		return fmt.Errorf("somebody has no answer, or does not end: %w", ctx.Err())
	}
}

// end kills everybody, those first who would be next.
func (c *people) end(ctx context.Context) error {
	for _, those := range []func() []*person{c.waiting, c.holders, c.waiting, c.holders} {
		all := those()
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
