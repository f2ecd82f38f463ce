package main

import (
	"context"
	"strings"
	"testing"
)

func TestDemo_StopRaisesNoAlarm(t *testing.T) {
	var b strings.Builder
	s := &show{w: &b, stopped: func() bool { return true }}
	s.title("Next")
	s.live(context.Background(), "dcm status", 0)
	s.quiet(context.Background(), "dcm status")
	s.await(context.Background(), "cpx-nps4", "in-sync")
	s.check("all is well", false, "context canceled")
	s.print("picture")
	if b.String() != "" || s.wrong != 0 {
		t.Errorf("%d checks failed, output: %s", s.wrong, &b)
	}
}
