package remote_test

import (
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dcm/internal/testkit/e2e/remote"
	"dcm/internal/testkit/testdeadline"
)

// serial returns the caller's end of a line, and the raw end for noise.
func serial(t *testing.T) (*remote.Line, net.Conn) {
	t.Helper()
	near, far := net.Pipe()
	go remote.ServeSerial(t.Context(), far, "first")
	t.Cleanup(func() { near.Close(); far.Close() })
	line := remote.NewLine(near)
	if hello := <-line.Hello; hello != "first" {
		t.Fatalf("the server sent %q", hello)
	}
	if _, err := near.Write([]byte("rest of a message\"}\n{\"ID\":\"\"}\n")); err != nil {
		t.Fatal(err)
	}
	return line, near
}

func TestSerial_ConcurrentCommands(t *testing.T) {
	line, _ := serial(t)
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	first := make(chan remote.Result)
	go func() {
		r, err := line.Run(t.Context(), remote.Command{Argv: []string{"cat", fifo}})
		if err != nil {
			t.Error(err)
		}
		first <- r
	}()
	r, err := line.Run(t.Context(), remote.Command{Argv: []string{"sh", "-c", `cat >"$1"; echo done >&2; exit 3`, "sh", fifo}, Stdin: []byte("text")})
	if err != nil || r.Code != 3 || r.Stderr != "done\n" {
		t.Errorf("second command: %+v, %v", r, err)
	}
	if r := <-first; r.Code != 0 || r.Stdout != "text" {
		t.Errorf("first command: %+v", r)
	}
}

func TestSerial_CancelKillsTheCommand(t *testing.T) {
	line, _ := serial(t)
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		// Opens when the command has opened it for reading.
		fd, err := unix.Open(fifo, unix.O_WRONLY, 0)
		if err != nil {
			t.Error(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		cancel()
	}()
	if _, err := line.Run(ctx, remote.Command{Argv: []string{"cat", fifo}}); err == nil {
		t.Error("the command ended without an interrupt")
	}
	if r, err := line.Run(t.Context(), remote.Command{Argv: []string{"echo", "still here"}}); err != nil || r.Stdout != "still here\n" {
		t.Errorf("next command: %+v, %v", r, err)
	}
}

func TestSerial_LineEnds(t *testing.T) {
	line, raw := serial(t)
	raw.Close()
	ctx, cancel := testdeadline.Context(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := line.Run(ctx, remote.Command{Argv: []string{"true"}}); err == nil || ctx.Err() != nil {
		t.Errorf("command on an ended line: %v", err)
	}
}
