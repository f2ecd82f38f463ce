// Command agent runs inside a test container.
//
// "agent serve DIR" is an early unit. It listens on DIR/agent.sock, then connects
// to DIR/hello.sock, where the test waits for it, and says which boot this is.
// When that connection ends, the test is gone, and the container powers itself
// off. "agent await FILE TEXT..." waits until a file holds all of the texts.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"

	"dcm/internal/e2e/remote"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) > 2 && args[0] == "await":
		return await(args[1], args[2:])
	case len(args) == 2 && args[0] == "serve":
		return serve(ctx, args[1])
	}
	return errors.New("usage: agent serve DIR | agent await FILE TEXT")
}

func serve(ctx context.Context, dir string) error {
	socket := filepath.Join(dir, "agent.sock")
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // the one of the boot before cannot be replaced
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return err
	}
	hello, err := net.Dial("unix", filepath.Join(dir, "hello.sock"))
	if err != nil {
		return err
	}
	if _, err := hello.Write(boot); err != nil {
		return err
	}
	go orphaned(hello)
	return remote.Serve(ctx, l)
}

// orphaned waits for the test to let go of the container.
func orphaned(hello net.Conn) {
	io.Copy(io.Discard, hello)
	// Twice --force does not ask PID 1, which may be what the test has broken.
	cmd := exec.Command("systemctl", "--force", "--force", "poweroff")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "agent: cannot power off:", err)
	}
}
