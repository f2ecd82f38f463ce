package vm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"dcm/internal/testkit/e2e/remote"
)

// Machine is a running virtual machine. Run is safe for concurrent use.
type Machine struct {
	dir     string // disk.qcow2, qemu.log, kernel.log, sockets
	release func() error
	disk    *Disk
	options Options
	console bool // the serial line is this process's terminal
	running *process
}

// Options define the hardware of a machine.
type Options struct {
	GPUs   int      // 1 to 8
	Kernel []string // further parameters of the kernel
}

// process is one run of QEMU.
type process struct {
	cmd     *exec.Cmd
	exited  chan struct{}
	line    *remote.Line
	monitor *monitor
	close   []io.Closer
}

const snapshot = "ready"

// start runs QEMU on the machine's disk, from the beginning or from the snapshot.
func (m *Machine) start(restore bool) error {
	p := &process{exited: make(chan struct{})}
	agent, err := p.listen(filepath.Join(m.dir, "agent.sock"))
	if err != nil {
		return err
	}
	control, err := p.listen(filepath.Join(m.dir, "monitor.sock"))
	if err != nil {
		return errors.Join(err, p.stop())
	}
	messages, err := os.OpenFile(m.path("qemu.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return errors.Join(err, p.stop())
	}
	defer messages.Close()
	p.cmd = exec.Command("qemu-system-x86_64", m.arguments(restore)...)
	p.cmd.Stdout, p.cmd.Stderr = messages, messages
	if m.console {
		p.cmd.Stdin, p.cmd.Stdout = os.Stdin, os.Stdout
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		p.cmd = nil
		return errors.Join(err, p.stop())
	}
	go func() {
		p.cmd.Wait()
		close(p.exited)
	}()
	line, err := p.accept(agent)
	if err != nil {
		return errors.Join(fmt.Errorf("QEMU did not start: %w\n%s", err, m.Console()), p.stop())
	}
	p.line = remote.NewLine(line)
	conn, err := p.accept(control)
	if err == nil {
		p.monitor, err = newMonitor(conn)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("QEMU did not start: %w\n%s", err, m.Console()), p.stop())
	}
	m.running = p
	return nil
}

func (m *Machine) arguments(restore bool) []string {
	kernel := slices.Concat([]string{
		"console=ttyS0", "root=/dev/vda", "rw", "quiet", "mitigations=off", "systemd.show_status=0",
		"panic=-1", "fakehive.gpus=" + strconv.Itoa(m.options.GPUs),
	}, m.disk.guest.kernel, m.options.Kernel)
	args := []string{
		// Software emulation only: some hosts have a /dev/kvm in which a stock kernel
		// does not boot.
		"-accel", "tcg,thread=multi", "-M", "q35", "-cpu", "qemu64", "-smp", "2", "-m", "1024",
		"-nodefaults", "-no-user-config", "-display", "none",
		"-kernel", m.disk.path("kernel"), "-initrd", m.disk.path("initrd"), "-append", strings.Join(kernel, " "),
		"-drive", "file=" + m.path("disk.qcow2") + ",if=none,id=disk,cache=unsafe",
		"-device", "virtio-blk-pci,drive=disk",
		"-device", "virtio-serial-pci",
		"-chardev", "socket,id=agent,path=" + m.path("agent.sock"),
		"-device", "virtserialport,chardev=agent,nr=1",
		"-chardev", "socket,id=monitor,path=" + m.path("monitor.sock"), "-mon", "chardev=monitor,mode=control",
	}
	if m.console {
		args = append(args, "-chardev", "stdio,id=console,signal=off,logfile="+m.path("kernel.log"), "-serial", "chardev:console")
	} else {
		args = append(args, "-serial", "file:"+m.path("kernel.log"))
	}
	if restore {
		return append(args, "-loadvm", snapshot)
	}
	return append(args, "-no-reboot") // a panic ends QEMU
}

func (p *process) listen(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	p.close = append(p.close, l)
	return l, nil
}

// accept returns QEMU's connection. It fails when QEMU has exited.
func (p *process) accept(l net.Listener) (net.Conn, error) {
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-p.exited:
			l.Close()
		case <-done:
		}
	}()
	conn, err := l.Accept()
	if err != nil {
		return nil, err
	}
	p.close = append(p.close, conn)
	return conn, nil
}

// stop kills QEMU, which is a power cut for the guest.
func (p *process) stop() error {
	if p.cmd != nil {
		p.cmd.Process.Kill() // it may have exited
		<-p.exited
	}
	var errs []error
	for _, c := range p.close {
		if err := c.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// booted waits until the guest's systemd has finished starting up. A failed unit is no error. If the kernel
// panics, the machine boots again, and that boot counts.
func (m *Machine) booted(ctx context.Context) error {
	select {
	case _, ok := <-m.running.line.Hello:
		if !ok {
			return m.endedInBoot()
		}
	case <-ctx.Done():
		return fmt.Errorf("the agent in the virtual machine did not start: %w\n%s", ctx.Err(), m.Console())
	}
	for {
		again, err := m.startedUp(ctx)
		if !again {
			return err
		}
	}
}

// startedUp waits for the end of a boot. It returns true if the agent of another boot starts before that.
func (m *Machine) startedUp(ctx context.Context) (again bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		r, err := m.Run(ctx, "systemctl", "is-system-running", "--wait")
		if state := strings.TrimSpace(r.Stdout); err == nil && state != "running" && state != "degraded" {
			err = fmt.Errorf("the system is %q after the boot: %s", state, r.Stderr)
		}
		ended <- err
	}()
	select {
	case err := <-ended:
		return false, err
	case _, ok := <-m.running.line.Hello:
		if !ok {
			return false, m.endedInBoot()
		}
		return true, nil
	}
}

func (m *Machine) endedInBoot() error {
	return fmt.Errorf("the virtual machine ended during its boot\n%s", m.Console())
}

// Run runs a command in the guest, as root. Its exit status is no error.
func (m *Machine) Run(ctx context.Context, argv ...string) (remote.Result, error) {
	return m.running.line.Run(ctx, remote.Command{Argv: argv})
}

// Put replaces a file in the guest.
func (m *Machine) Put(ctx context.Context, path string, content []byte, mode os.FileMode) error {
	const script = `set -e; mkdir -p "$(dirname "$1")"; cat >"$1.new"; chmod "$2" "$1.new"; mv "$1.new" "$1"`
	r, err := m.running.line.Run(ctx, remote.Command{
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

// Done is closed when QEMU has exited, which it does when the guest powers off.
func (m *Machine) Done() <-chan struct{} { return m.running.exited }

// Console returns the messages of QEMU and of the guest's kernel.
func (m *Machine) Console() string {
	var out strings.Builder
	for _, name := range []string{"qemu.log", "kernel.log"} {
		text, err := os.ReadFile(m.path(name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			text = []byte(err.Error())
		}
		out.Write(text)
	}
	return out.String()
}

// Close ends the machine and removes its disk.
func (m *Machine) Close() error {
	var err error
	if m.running != nil {
		err = m.running.stop()
	}
	return errors.Join(err, m.release())
}

func (m *Machine) path(name string) string { return filepath.Join(m.dir, name) }
