package gpu

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"dcm/internal/testkit/testdeadline"
)

// testContext returns a context whose deadline only a hanging test reaches.
func testContext(t *testing.T) context.Context {
	ctx, cancel := testdeadline.Context(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// startReader starts a process that ends when end is closed.
func startReader(t *testing.T) (pid int, end io.Closer) {
	t.Helper()
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	return cmd.Process.Pid, in
}

func TestWaitAnyExit_OneEnds(t *testing.T) {
	stays, _ := startReader(t)
	ends, end := startReader(t)
	done := make(chan error)
	go func() { done <- WaitAnyExit(testContext(t), []int{stays, ends}) }()
	select {
	case err := <-done:
		t.Fatalf("returned %v while both run", err)
	default:
	}
	end.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestWaitAnyExit_AlreadyEnded(t *testing.T) {
	stays, _ := startReader(t)
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if err := WaitAnyExit(testContext(t), []int{stays, cmd.Process.Pid}); err != nil {
		t.Error(err)
	}
}

func TestWaitAnyExit_ContextEnds(t *testing.T) {
	before := openFiles(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- WaitAnyExit(ctx, []int{os.Getpid()}) }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	if after := openFiles(t); after > before {
		t.Errorf("%d open files, %d before", after, before)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
