package service

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dcm/internal/exit"
)

func TestTheGeneratorHasALimitOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		log := func(_ slog.Level, text string) { told = append(told, text) }
		hung := make(chan struct{})
		began := time.Now()
		if code := within(generating, log, func() int { <-hung; return exit.OK }); code != exit.Failed || time.Since(began) != generating {
			t.Errorf("held up, it ends with %d after %s", code, time.Since(began))
		}
		if len(told) != 1 || !strings.Contains(told[0], "not read within 20s") {
			t.Errorf("it said %q", told)
		}
		close(hung)
		if code := within(generating, log, func() int { return exit.OK }); code != exit.OK || len(told) != 1 {
			t.Errorf("with nothing in its way it ends with %d and says %q", code, told)
		}
	})
}
