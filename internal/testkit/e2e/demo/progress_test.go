package main

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// lines sends each line that is written.
type lines chan string

func (l lines) Write(text []byte) (int, error) {
	l <- string(text)
	return len(text), nil
}

func TestProgress_PrintsStepAndTime(t *testing.T) {
	out := make(lines, 100)
	p := &progress{w: out, total: 3}
	failed := errors.New("failed")
	err := p.run("booting", time.Millisecond, func() error {
		for range 3 {
			if line := <-out; !strings.HasPrefix(line, "demo: step 1 of 3: booting") {
				t.Errorf("printed %q", line)
			}
		}
		return failed
	})
	if !errors.Is(err, failed) {
		t.Errorf("returned %v, want %v", err, failed)
	}
	for len(out) > 0 {
		<-out
	}
	if err := p.run("walking", time.Hour, func() error { return nil }); err != nil {
		t.Error(err)
	}
	if line := <-out; line != "demo: step 2 of 3: walking\n" {
		t.Errorf("printed %q", line)
	}
}
