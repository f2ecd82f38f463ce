package change

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/runstate"
	"dcm/internal/exitcode"
)

func TestHolderWait_Await(t *testing.T) {
	python := runstate.Holder{PID: 7, Command: "python", Devices: []string{"/dev/kfd"}}
	for _, tt := range []struct {
		name     string
		limit    time.Duration
		until    time.Duration // when the holder ends
		err      error         // of the search
		code     int
		text     string
		reported []string
	}{
		{"no holder", 0, 0, nil, exitcode.OK, "", nil},
		{"ends in time", time.Hour, time.Minute, nil, exitcode.OK, "", []string{"Waiting: GPUs are in use: python (pid 7, no unit) has /dev/kfd open."}},
		{"no limit", 0, 9 * time.Hour, nil, exitcode.OK, "", []string{"Waiting: GPUs are in use: python (pid 7, no unit) has /dev/kfd open."}},
		{"time over", time.Minute, time.Hour, nil, exitcode.Transient, "nothing was changed: the time to wait is over: GPUs are in use: python (pid 7, no unit) has /dev/kfd open",
			[]string{"Waiting: GPUs are in use: python (pid 7, no unit) has /dev/kfd open."}},
		{"cannot search", time.Minute, time.Hour, errors.New("no plan"), exitcode.Failed, "nothing was changed: no plan", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				end := time.Now().Add(tt.until)
				find := func(context.Context) ([]runstate.Holder, error) {
					if time.Now().Before(end) {
						return []runstate.Holder{python}, tt.err
					}
					return nil, tt.err
				}
				exit := func(ctx context.Context, _ []runstate.Holder) {
					next, stop := context.WithTimeout(ctx, time.Second)
					defer stop()
					<-next.Done()
				}
				var reported []string
				err := holderWait{true, tt.limit}.await(t.Context(), find, exit, func(text string) { reported = append(reported, text) })
				if got := exitcode.Code(err); got != tt.code || err != nil && !strings.HasPrefix(err.Error(), tt.text) {
					t.Errorf("got %d, %v; want %d, %s", got, err, tt.code, tt.text)
				}
				if diff := cmp.Diff(tt.reported, reported); diff != "" {
					t.Errorf("reported (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// The end of a process ends the wait, without the poll of the holders.
func TestAwaitExit(t *testing.T) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan bool)
	go func() {
		awaitExit(t.Context(), []runstate.Holder{{PID: cmd.Process.Pid}})
		close(done)
	}()
	in.Close()
	<-done
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
