package remote_test

import (
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"dcm/internal/testkit/e2e/remote"
	"dcm/internal/testkit/testdeadline"
)

func serve(t *testing.T) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "agent.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go remote.Serve(t.Context(), l)
	return socket
}

func TestRun_OutputAndExitStatus(t *testing.T) {
	socket := serve(t)
	tests := map[string]struct {
		command remote.Command
		want    remote.Result
	}{
		"success":         {remote.Command{Argv: []string{"echo", "a b"}}, remote.Result{Stdout: "a b\n"}},
		"both outputs":    {remote.Command{Argv: []string{"sh", "-c", "echo o; echo e >&2; exit 3"}}, remote.Result{Stdout: "o\n", Stderr: "e\n", Code: 3}},
		"killed":          {remote.Command{Argv: []string{"sh", "-c", "kill -9 $$"}}, remote.Result{Code: 137}},
		"input":           {remote.Command{Argv: []string{"cat"}, Stdin: []byte("\x00in")}, remote.Result{Stdout: "\x00in"}},
		"own environment": {remote.Command{Argv: []string{"sh", "-c", "echo $COLOUR"}, Env: []string{"COLOUR=red"}}, remote.Result{Stdout: "red\n"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := remote.Run(t.Context(), socket, tt.command)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRun_MissingCommand(t *testing.T) {
	_, err := remote.Run(t.Context(), serve(t), remote.Command{Argv: []string{"/no/such/program"}})
	if err == nil {
		t.Fatal("a program that does not exist was run")
	}
}

func TestRun_Deadline(t *testing.T) {
	socket := serve(t)
	marker := filepath.Join(t.TempDir(), "fifo")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	// The shell's child must go too: the fifo has a reader as long as it lives.
	_, err := remote.Run(ctx, socket, remote.Command{Argv: []string{"sh", "-c", `mkfifo "$1"; cat "$1"; :`, "sh", marker}})
	if err == nil {
		t.Fatal("the command ended without an interrupt")
	}
	// It has no reader, so that it cannot be opened for writing.
	for long := testdeadline.After(10 * time.Second); ; {
		fd, err := unix.Open(marker, unix.O_WRONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			break
		}
		unix.Close(fd)
		select {
		case <-long:
			t.Fatal("the child process of the command still runs")
		default:
		}
	}
}
