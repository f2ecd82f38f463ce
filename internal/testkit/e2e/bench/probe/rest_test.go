package main

import (
	"os"
	"testing"
)

func TestRest_SumOfThreads(t *testing.T) {
	s, err := threads(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if s.count < 1 || s.slices < s.count || s.ran <= 0 {
		t.Errorf("this test: %d threads ran %d times for %v", s.count, s.slices, s.ran)
	}
	if _, err := threads(1 << 30); err == nil {
		t.Error("no error for a process that does not exist")
	}
}
