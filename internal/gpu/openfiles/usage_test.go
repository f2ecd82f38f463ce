package openfiles_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dcm/internal/gpu/openfiles"
)

// A driver that hangs is named by what was read from it.
func TestSearch_Hang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		defer close(end)
		s := openfiles.Search{Nodes: func() (*openfiles.Nodes, error) { <-end; return nil, errors.New("ended") }}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := s.Usage(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "timed out while reading the device nodes") {
			t.Errorf("got %v", err)
		}
	})
}
