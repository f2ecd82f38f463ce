package service

import (
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"testing"
	"time"

	"dcm/internal/exitcode"
	"dcm/internal/testkit/testdeadline"
)

func TestAReloadHangsUpTheDaemonAlone(t *testing.T) {
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGHUP)
	defer signal.Stop(heard)
	for _, pid := range []string{"", "0", "1", "-1", "x"} {
		if err := HangUp(pid); exitcode.Code(err) != exitcode.Usage {
			t.Errorf("$MAINPID=%q: %v, want a usage error", pid, err)
		}
	}
	if err := HangUp(strconv.Itoa(os.Getpid())); err != nil {
		t.Fatal(err)
	}
	select {
	case <-heard:
	case <-testdeadline.After(10 * time.Second):
		t.Error("no SIGHUP came")
	}
}
