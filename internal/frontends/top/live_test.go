package top

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dcm/internal/frontends/status"
	"dcm/internal/testkit/pty"
	"dcm/internal/testkit/testdeadline"
	"dcm/internal/text"
)

// playing is the environment variable that makes the test program run dcm top.
const playing = "DCM_TOP_PLAYS"

func TestMain(m *testing.M) {
	if how := os.Getenv(playing); how != "" {
		os.Exit(play(how))
	}
	os.Exit(m.Run())
}

// play runs dcm top with three partitions. Each sample shows its number.
func play(how string) int {
	n := 0
	look := func(context.Context) (status.Usage, error) {
		n++
		u := three()
		u.Parts[0].Name = fmt.Sprintf("look-%d", n)
		switch {
		case how == "panic" && n == 2:
			panic("a look that fails")
		case how == "error" && n > 1:
			return status.Usage{}, errors.New("the daemon is gone")
		}
		return u, nil
	}
	if err := Live(context.Background(), os.Stdin, os.Stdout, look, Order{By: "partition"}, 200*time.Millisecond, false); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// player is a terminal with a program in it. The test types and reads.
type player struct {
	t     *testing.T
	front *os.File
	back  *os.File // keeps the terminal open after the end of the program
	cmd   *exec.Cmd
	ended chan error

	mu      sync.Mutex
	output  bytes.Buffer
	changed chan struct{}
}

// start runs play in a terminal of 80 by 24.
func start(t *testing.T, how string) *player {
	t.Helper()
	front, back := pty.Open(t, 80, 24)
	p := &player{t: t, front: front, back: back, ended: make(chan error, 1), changed: make(chan struct{}, 1)}
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), playing+"="+how, "GOCOVERDIR="+t.TempDir())
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = back, back, back
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	return p
}

func (p *player) run() {
	p.t.Helper()
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() { p.ended <- p.cmd.Wait() }()
	go p.listen()
	p.t.Cleanup(func() { _ = p.cmd.Process.Kill() })
}

func (p *player) listen() {
	buf := make([]byte, 4096)
	for {
		n, err := p.front.Read(buf)
		p.mu.Lock()
		p.output.Write(buf[:n])
		p.mu.Unlock()
		select {
		case p.changed <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

func (p *player) size(width, height uint16) {
	p.t.Helper()
	pty.Resize(p.t, p.front, width, height)
}

// mode returns the settings of the terminal.
func (p *player) mode() unix.Termios {
	p.t.Helper()
	m, err := unix.IoctlGetTermios(int(p.front.Fd()), unix.TCGETS)
	if err != nil {
		p.t.Fatal(err)
	}
	return *m
}

func (p *player) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.String()
}

// forget discards the output so far.
func (p *player) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.output.Reset()
}

// sees waits until the output contains this text.
func (p *player) sees(what string) {
	p.t.Helper()
	late := testdeadline.After(20 * time.Second)
	for !strings.Contains(p.text(), what) {
		select {
		case <-p.changed:
		case <-late:
			p.t.Fatalf("output: got %q, want %q in it", p.text(), what)
		}
	}
}

func (p *player) types(keys string) {
	p.t.Helper()
	if _, err := p.front.WriteString(keys); err != nil {
		p.t.Fatal(err)
	}
}

// quits waits for the end of the program and checks that the terminal has its former settings.
func (p *player) quits(was unix.Termios) error {
	p.t.Helper()
	select {
	case err := <-p.ended:
		p.sees(leave)
		if now := p.mode(); now != was {
			p.t.Errorf("settings of the terminal: got %+v, want %+v", now, was)
		}
		return err
	case <-testdeadline.After(20 * time.Second):
		p.t.Fatalf("the program does not end; output: %q", p.text())
	}
	return nil
}

func TestLive_RestoresTerminal(t *testing.T) {
	for _, test := range []struct {
		name, how string
		end       func(*player)
		fails     bool
	}{
		{"q", "plain", func(p *player) { p.types("q") }, false},
		{"control-C", "plain", func(p *player) { p.types("\x03") }, false},
		{"SIGTERM", "plain", func(p *player) { _ = p.cmd.Process.Signal(unix.SIGTERM) }, false},
		{"SIGINT", "plain", func(p *player) { _ = p.cmd.Process.Signal(unix.SIGINT) }, false},
		{"SIGHUP", "plain", func(p *player) { _ = p.cmd.Process.Signal(unix.SIGHUP) }, false},
		{"a panic", "panic", func(*player) {}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := start(t, test.how)
			was := p.mode()
			p.run()
			p.sees(enter)
			p.sees("look-1 ")
			if now := p.mode(); test.how == "plain" && now.Lflag&(unix.ICANON|unix.ECHO) != 0 {
				t.Error("the terminal is not in raw mode")
			}
			test.end(p)
			if err := p.quits(was); (err != nil) != test.fails {
				t.Errorf("result: got %v", err)
			}
		})
	}
}

func TestLive_KeysAndResizes(t *testing.T) {
	p := start(t, "plain")
	was := p.mode()
	p.run()
	p.sees("look-1 ")
	p.sees("by partition, every 200ms; h for help, q to quit")
	p.sees("look-3 ") // at the interval, without a key
	for line := range strings.SplitSeq(strings.ReplaceAll(p.text(), home, "\r\n"), "\r\n") {
		if bare := strings.NewReplacer(enter, "", endLine, "", endPage, "", head, "", plain, "").Replace(line); text.Width(bare) > 80 {
			t.Errorf("line %q is wider than the terminal", bare)
		}
	}
	for _, step := range []struct{ keys, want string }{
		{">", "by mode,"}, {"\x1b[D", "by partition,"}, {"\x1b[D", "by pids,"}, {"r", "by pids, reversed"},
		{"h", "usage and holders of the GPUs"}, {"\x1b", "by pids, reversed"},
	} {
		p.forget()
		p.types(step.keys)
		p.sees(step.want)
	}
	// The program is stopped while another one uses the terminal.
	raw := p.mode()
	p.forget()
	if err := unix.IoctlSetTermios(int(p.front.Fd()), unix.TCSETS, &was); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Process.Signal(unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	p.sees(enter)
	if now := p.mode(); now != raw {
		t.Errorf("terminal after a stop: got %+v, want %+v", now, raw)
	}
	p.size(200, 50)
	p.sees("4711,4712,4713")
	p.size(20, 4)
	p.forget()
	p.sees("PARTITION        USE" + plain) // cut after 20 characters
	p.types("q")
	if err := p.quits(was); err != nil {
		t.Error(err)
	}
}

func TestLive_KeepsLastResult(t *testing.T) {
	p := start(t, "error")
	was := p.mode()
	p.run()
	p.sees("by partition; not updated: the daemon is gone")
	p.forget()
	p.types(" ")
	p.sees("look-1 ")
	p.types("q")
	if err := p.quits(was); err != nil {
		t.Error(err)
	}
}
