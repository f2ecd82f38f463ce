package vm

import (
	"bufio"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"dcm/internal/testkit/e2e/remote"
	"dcm/internal/testkit/testdeadline"
)

// The kernel panics during a boot, after the agent has started, and the machine boots again.
func TestBooted_AfterPanic(t *testing.T) {
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "systemctl"), []byte("#!/bin/sh\necho running\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	ctx, cancel := testdeadline.Context(t.Context(), 10*time.Second)
	defer cancel()
	guest, host := net.Pipe()
	served := make(chan error, 1)
	go func() {
		if _, err := guest.Write([]byte(`{"Hello":"first"}` + "\n")); err != nil {
			served <- err
			return
		}
		if _, err := bufio.NewReader(guest).ReadString('\n'); err != nil { // the command whose reply is lost
			served <- err
			return
		}
		served <- remote.ServeSerial(ctx, guest, "second")
	}()
	m := &Machine{running: &process{line: remote.NewLine(host)}}
	if err := m.booted(ctx); err != nil {
		t.Error(err)
	}
	if err := host.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}
