package change

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/exitcode"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/drain"
)

// Without inotify the run is made, and its steps are not shown.
func TestWatchRun_NoInotify(t *testing.T) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	// No descriptor is free, as with too many inotify instances.
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	made := false
	err := watchRun(t.Context(), &host.Host{Root: "/nowhere"}, &console.Console{Out: &out, Err: &out}, func() error {
		made = true
		return nil
	}, func(*progress, error) error { return nil })
	if back := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); back != nil {
		t.Fatal(back)
	}
	if err != nil || !made || !strings.Contains(out.String(), "the steps are not shown: ") {
		t.Errorf("made %t, %v, printed %q", made, err, &out)
	}
}

// A command exits with 75 if dcm retries.
func TestFailure_ExitStatus(t *testing.T) {
	later := &runstate.Error{Text: "dcm-reserve.service failed", Transient: true}
	for _, tt := range []struct {
		name  string
		state runstate.State
		want  int
	}{
		{"busy", runstate.State{Phase: runstate.Waiting, Error: later}, exitcode.Transient},
		{"partitions are chosen again", runstate.State{Phase: runstate.InSync, Error: later}, exitcode.Transient},
		{"a client is not back", runstate.State{Phase: runstate.InSync, Error: &runstate.Error{Text: "not back"}}, exitcode.Failed},
		{"permanent", runstate.State{Phase: runstate.Stuck, Error: &runstate.Error{Text: "no such mode"}}, exitcode.Failed},
		{"the configuration", runstate.State{Phase: runstate.Stuck, Config: "dcm.toml:3: bad"}, exitcode.Config},
	} {
		if got := exitcode.Code(Failure(&tt.state)); got != tt.want {
			t.Errorf("%s: exit status %d, want %d", tt.name, got, tt.want)
		}
	}
}

// dcm apply --when-idle does not warn about its own wait.
func TestWithoutOwnWait(t *testing.T) {
	h := &host.Host{Root: t.TempDir()}
	if err := os.MkdirAll(h.Runtime(), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, gpus := range [][]partition.Address{nil, {"0000:85:00.0"}} {
		d, err := drain.Start(h, append([]string{"dcm"}, os.Args[1:]...), gpus)
		if err != nil {
			t.Fatal(err)
		}
		notes := drain.Notes(h)
		d.End()
		other := "dcm apply --when-idle, by alice waits for the end of all leases (x.scope), and no new ones are granted"
		if got := withoutOwnWait(h, append(notes, other)); len(notes) != 1 || len(got) != 1 || got[0] != other {
			t.Errorf("of %q are left %q, want the wait of alice", notes, got)
		}
	}
}
