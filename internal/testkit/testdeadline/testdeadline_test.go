package testdeadline

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestContext_LoadedMachine(t *testing.T) {
	tests := map[string]struct {
		loadavg string
		want    float64
	}{
		"quiet":            {"0.10 0.20 0.30 1/300 4711", 1},
		"as many as fit":   {"2.00 0.20 0.30 2/300 4711", 1},
		"busy by average":  {"8.00 0.20 0.30 1/300 4711", 0.25},
		"busy at a moment": {"0.10 0.20 0.30 20/300 4711", 0.1},
		"not readable":     {"", 1},
		"nonsense":         {"a b c d", 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := share(tt.loadavg, 2); got != tt.want {
				t.Errorf("share is %v, want %v", got, tt.want)
			}
		})
	}
}

func TestContext_Deadline(t *testing.T) {
	ctx, cancel := Context(t.Context(), time.Millisecond)
	defer cancel()
	<-ctx.Done()
	if err := context.Cause(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("cause is %v", err)
	}
	<-After(time.Millisecond)
}

func TestContext_Cancel(t *testing.T) {
	ctx, cancel := Context(t.Context(), time.Hour)
	cancel()
	<-ctx.Done()
}
