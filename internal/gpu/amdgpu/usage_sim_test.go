package amdgpu

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"dcm/internal/gpu"
	"dcm/internal/testkit/sim"
	"dcm/internal/testkit/sim/simtest"
)

// inFlight opens the file and sends it to a socket without a receiver. The file is open in no
// process.
func inFlight(t *testing.T, file string) (end func()) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(int(f.Fd())), nil, 0); err != nil {
		t.Fatal(err)
	}
	f.Close()
	return func() {
		unix.Close(pair[0])
		unix.Close(pair[1])
	}
}

func TestUsage_FileInFlight(t *testing.T) {
	s := simtest.Start(t, "mi300x-8", sim.Options{})
	n := whole(gpu.Roots{Sys: s.Sys, Proc: "/proc", Dev: s.Dev})
	if u := n.usageOf(t); !u.Unused(0) {
		t.Errorf("usage %+v of an unused driver", u)
	}
	end := inFlight(t, filepath.Join(s.Dev, "dri/renderD128"))
	if u := n.usageOf(t); u.Unexplained() != 1 || u.Unused(0) || len(u.Holders) > 0 {
		t.Errorf("usage %+v, want one use by no visible process", u)
	}
	end()
	ctx := patient(t)
	for u := n.usageOf(t); !u.Unused(0); u = n.usageOf(t) { // the simulator sees the last close with a delay
		if ctx.Err() != nil {
			t.Fatalf("usage %+v after the end", u)
		}
	}
}
