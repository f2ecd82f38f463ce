package e2e

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"dcm/internal/testkit/e2e/remote"
)

//go:embed boot.sh
var bootScript string

// shutdownTimeout limits the power-off of a container. Afterwards its processes are killed.
const shutdownTimeout = 10 * time.Second

// Container is a booted container. Its methods are safe for concurrent use, except
// Reboot and Close.
type Container struct {
	dir     string       // console.log; seed; work, where its root is mounted; share, its /e2e
	release func() error // unlocks and removes dir
	cgroup  cgroup
	greeter *greeter
	exited  chan struct{} // closed when the container has powered off
	ended   error         // the reason, valid when exited is closed
}

// Boot boots a container from a root in the cache, with the files of the seed added. It
// returns when systemd has finished starting up. agent is the static binary of the command
// agent.
func Boot(ctx context.Context, root, agent string, seed Seed) (_ *Container, err error) {
	dir, release, err := Scratch("")
	if err != nil {
		return nil, err
	}
	c := &Container{dir: dir, release: release, exited: make(chan struct{})}
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot boot %s: %w\n%s", root, err, c.Console())
			err = errors.Join(err, c.Close())
		}
	}()
	if seed, err = seed.withAgent(agent); err != nil {
		return nil, err
	}
	if err := seed.Write(filepath.Join(dir, "seed")); err != nil {
		return nil, err
	}
	for _, name := range []string{"work", "share"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			return nil, err
		}
	}
	if c.cgroup, err = newCgroup(filepath.Base(dir)); err != nil {
		return nil, err
	}
	if c.greeter, err = greet(filepath.Join(dir, "share", "hello.sock")); err != nil {
		return nil, err
	}
	if err := c.start(root); err != nil {
		close(c.exited)
		return nil, err
	}
	return c, c.await(ctx)
}

func (c *Container) start(root string) error {
	console, err := os.Create(c.path("console.log"))
	if err != nil {
		return err
	}
	defer console.Close()
	cmd := exec.Command("sh", "-c", bootScript, "boot.sh", c.path("work"), c.path("seed"), root,
		"--boot", "--quiet", "--register=no", "--keep-unit", "--private-network",
		"--machine="+filepath.Base(c.dir), "--bind="+c.path("share")+":/e2e", "--bind=/dev/fuse")
	if _, err := os.Stat(c.path("seed" + DevicePrograms)); err == nil {
		cmd.Args = append(cmd.Args, "--capability=CAP_BPF", "--system-call-filter=bpf")
	}
	cmd.Stdout, cmd.Stderr = console, console
	cmd.Env = append(os.Environ(), "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Unshareflags: syscall.CLONE_NEWNS, UseCgroupFD: true, CgroupFD: int(c.cgroup.held.Fd()), Setpgid: true,
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		c.ended = cmd.Wait()
		close(c.exited)
	}()
	return nil
}

// await waits until the next boot has completed. A failed unit is no error.
func (c *Container) await(ctx context.Context) error {
	select {
	case <-c.greeter.boots:
	case <-c.exited:
		return fmt.Errorf("the container ended: %v", c.ended)
	case <-ctx.Done():
		return fmt.Errorf("the container's agent did not come up: %w", ctx.Err())
	}
	r, err := c.Run(ctx, "systemctl", "is-system-running", "--wait")
	if err != nil {
		return err
	}
	if state := strings.TrimSpace(r.Stdout); state != "running" && state != "degraded" {
		return fmt.Errorf("the system is %q after the boot: %s", state, r.Stderr)
	}
	return nil
}

// Run runs a command in the container as root. A non-zero exit status is no error.
func (c *Container) Run(ctx context.Context, argv ...string) (remote.Result, error) {
	return remote.Run(ctx, c.path("share/agent.sock"), remote.Command{Argv: argv})
}

// Put writes a new file in the container and renames it over the old one, as editors do.
func (c *Container) Put(ctx context.Context, path string, content []byte, mode os.FileMode) error {
	const script = `set -e; mkdir -p "$(dirname "$1")"; cat >"$1.new"; chmod "$2" "$1.new"; mv "$1.new" "$1"`
	r, err := remote.Run(ctx, c.path("share/agent.sock"), remote.Command{
		Argv: []string{"sh", "-c", script, "put", path, fmt.Sprintf("%o", mode.Perm())}, Stdin: content,
	})
	if err == nil && r.Code != 0 {
		err = errors.New(r.Stderr)
	}
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	return nil
}

// Reboot runs systemctl reboot in the container and waits until the next boot has completed.
// It does not enter the container meanwhile: that can hang a shutdown.
func (c *Container) Reboot(ctx context.Context) error {
	// The shutdown may kill the command before it exits.
	if r, err := c.Run(ctx, "systemctl", "reboot"); err == nil && r.Code != 0 {
		return fmt.Errorf("cannot reboot: %s", r.Stderr)
	}
	return c.Rebooted(ctx)
}

// Rebooted waits for the end of a reboot that a program in the container has requested.
func (c *Container) Rebooted(ctx context.Context) error {
	if err := c.await(ctx); err != nil {
		return fmt.Errorf("cannot reboot: %w", err)
	}
	return nil
}

// Running reports whether the container has booted and does not shut down.
func (c *Container) Running(ctx context.Context) bool {
	r, err := c.Run(ctx, "systemctl", "is-system-running")
	state := strings.TrimSpace(r.Stdout)
	return err == nil && (state == "running" || state == "degraded" || state == "starting")
}

// Console returns what PID 1 wrote to the console.
func (c *Container) Console() string {
	text, err := os.ReadFile(c.path("console.log"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Shared returns the path on the host of a file in the container's directory /e2e.
func (c *Container) Shared(name string) string { return c.path(filepath.Join("share", name)) }

func (c *Container) path(name string) string { return filepath.Join(c.dir, name) }

// ProcessorTime returns the processor time that the container's processes have used so far.
func (c *Container) ProcessorTime() (time.Duration, error) { return c.cgroup.processorTime() }

// Close powers the container off, kills the processes that are left, and removes its files.
func (c *Container) Close() error {
	var errs []error
	if c.greeter != nil {
		errs = append(errs, c.greeter.close())
	}
	if c.cgroup.dir != "" {
		select {
		case <-c.exited:
		case <-time.After(shutdownTimeout):
			errs = append(errs, c.cgroup.kill())
			<-c.exited
		}
		errs = append(errs, c.cgroup.remove())
	}
	return errors.Join(append(errs, c.release())...)
}
