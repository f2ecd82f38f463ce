package daemon

import (
	"slices"
	"syscall"
	"testing"

	"dcm/internal/engine/runstate"
)

// Save hands the state to the publisher, which sends a status line with more in it. A line that the
// daemon sent after Save would replace the publisher's line.
func TestStatusLine_SentBeforeSave(t *testing.T) {
	h := newHost(t)
	h.steps = 1
	h.start()
	h.until("a run that succeeded", func(s runstate.State) bool { return s.Phase == runstate.InSync })
	h.mu.Lock()
	defer h.mu.Unlock()
	want := []string{"Checking the GPUs", "Putting profile cpx on the GPUs", "Profile cpx is on the GPUs"}
	if got := h.lines[:min(len(h.lines), len(want))]; !slices.Equal(got, want) {
		t.Errorf("the status lines at each save are %q, want %q", got, want)
	}
}

// If the daemon sent the same line again, it would replace the publisher's longer one.
func TestStatusLine_SentOnce(t *testing.T) {
	h := newHost(t)
	h.start()
	h.until("the start", func(s runstate.State) bool { return s.Phase == runstate.InSync })
	h.set(func() { h.line = "the publisher's" })
	h.hangup <- syscall.SIGHUP
	h.until("a look that finds the same", func(s runstate.State) bool { return s.Phase == runstate.InSync })
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.line != "the publisher's" {
		t.Errorf("the status line is %q again", h.line)
	}
}
