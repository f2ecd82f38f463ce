package caller

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// poll(2) is not restarted after a signal (signal(7)). The Go runtime sends SIGURG to preempt goroutines.
func TestAlive_Interrupted(t *testing.T) {
	p, err := Open("/proc", os.Getpid(), uint32(os.Getuid()))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			select {
			case <-done:
				return
			default:
				_ = unix.Kill(os.Getpid(), unix.SIGURG) // the runtime ignores a signal that it did not request
			}
		}
	}()
	for range 200_000 {
		if err := p.alive(); err != nil {
			t.Fatal(err)
		}
	}
}
