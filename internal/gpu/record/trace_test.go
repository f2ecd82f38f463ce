package record_test

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dcm/internal/gpu/nvml/standin"
	"dcm/internal/gpu/record"
	"dcm/internal/testkit/sim"
)

// The stand-in tries what hostile code would, and the trace has the refused calls.
func TestRecord_RefusedCalls(t *testing.T) {
	n := start(t, kind(t, "h100-8"), library(t), sim.Options{})
	if err := standin.Turn(standin.StateOf(n.source.Library), "confess /dev/null"); err != nil {
		t.Fatal(err)
	}
	n.source.Trace = true
	r := record.Take(t.Context(), n.source, time.Unix(0, 0))
	if r.NVML == nil {
		t.Fatalf("no reply: %+v", r.Calls)
	}
	want := map[int32]bool{unix.SYS_SOCKET: false, unix.SYS_UNSHARE: false}
	for _, c := range r.NVML.Refused {
		if _, ok := want[c.Number]; ok && c.Count > 0 {
			want[c.Number] = true
		}
	}
	for number, found := range want {
		if !found {
			t.Errorf("call %d is missing in %+v", number, r.NVML.Refused)
		}
	}
	n.source.Trace = false
	if r := record.Take(t.Context(), n.source, time.Unix(0, 0)); r.NVML == nil || len(r.NVML.Refused) > 0 {
		t.Errorf("without a trace: %+v", r.NVML)
	}
}
