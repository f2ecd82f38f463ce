package sequence_test

import (
	"strings"
	"testing"
	"time"

	"dcm/cmd/dcm-kubernetes/internal/sequence"
	"dcm/cmd/dcm-kubernetes/internal/vendor"
)

// The kubelet needs the DRA driver to end pods with claims.
func TestDraining_DriverLeavesLast(t *testing.T) {
	type pods = []sequence.Pod
	driver, exporter := sequence.Pod{Namespace: "d", Name: "driver", Driver: true}, sequence.Pod{Namespace: "d", Name: "exporter", Claims: true}
	leaving := func(p sequence.Pod) sequence.Pod { p.Leaving = true; return p }
	stays := func(p sequence.Pod) sequence.Pod { p.Stays = true; return p }
	label := map[string]string{"nvidia.com/gpu.deploy.dra-driver": "true"}
	const empty, apply, look = "patch draining cordon taint in-progress", "patch applying cordon taint in-progress", "sequence.Wait {For:5s}"
	tests := []struct {
		name     string
		operands pods
		paused   map[string]string
		emptied  bool
		want     string
	}{
		{"no claims", pods{driver}, label, false, empty},
		{"a claim", pods{driver, exporter}, label, false, "delete exporter"},
		{"a terminating pod with a claim", pods{driver, leaving(exporter)}, label, false, look},
		{"a claim, a driver without a label", pods{driver, exporter}, nil, false, "delete exporter"},
		{"a terminating pod with a claim, a driver without a label", pods{driver, leaving(exporter)}, nil, false, look},
		{"a driver without a label", pods{driver}, nil, false, "delete driver"},
		{"a tolerating pod with a claim", pods{driver, stays(exporter)}, label, false, empty},
		{"a tolerating pod with a claim that terminates", pods{driver, leaving(stays(exporter))}, label, false, look},
		{"the same without a driver", pods{leaving(stays(exporter))}, label, true, apply},
		{"a terminating driver", pods{leaving(driver)}, label, true, look},
		{"a tolerating driver", pods{stays(driver)}, nil, false, apply},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := at(sequence.Draining, time.Minute)
			s.Node.Vendor, s.Node.Op.Vendor = vendor.NVIDIA, vendor.NVIDIA.Name
			s.Node.Op.Paused, s.Node.Op.Emptied = tt.paused, tt.emptied
			s.Pods = &sequence.Pods{Operands: tt.operands, Driver: true}
			step := sequence.Next(s)
			if got := strings.TrimSpace(summary(step.Act)); got != tt.want {
				t.Errorf("next is %q, want %q (%+v)", got, tt.want, step.Condition)
			}
		})
	}
}

func TestDraining_WithoutDriver(t *testing.T) {
	s := at(sequence.Draining, time.Hour)
	s.Pods = &sequence.Pods{Operands: []sequence.Pod{{Namespace: "d", Name: "exporter", Claims: true, Leaving: true}}}
	const want = "d/exporter (terminating). hint: start the DRA driver: the kubelet needs it to end pods with claims"
	if got := sequence.Next(s).Condition.Message; !strings.Contains(got, want) {
		t.Errorf("message is %q, want %q", got, want)
	}
}
