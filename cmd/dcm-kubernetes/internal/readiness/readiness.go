// Package readiness serves the readiness of the agent to the kubelet over HTTP.
package readiness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// Path is the path of the probe.
const Path = "/readyz"

// State is whether the agent is ready. The zero value is not ready.
type State struct{ why atomic.Pointer[string] }

// Set sets why the agent is not ready; "" if it is.
func (s *State) Set(why string) { s.why.Store(&why) }

// ServeHTTP answers with status 200, or with 503 and the reason.
func (s *State) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	why := "starting"
	if stored := s.why.Load(); stored != nil {
		why = *stored
	}
	if why != "" {
		http.Error(w, why, http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// requestTimeout limits a request and its answer, of which each is one packet.
const requestTimeout = 5 * time.Second

// Serve answers GET requests for [Path] until ctx ends.
func (s *State) Serve(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle("GET "+Path, s)
	server := &http.Server{Handler: mux, ReadTimeout: requestTimeout, WriteTimeout: requestTimeout, IdleTimeout: requestTimeout, MaxHeaderBytes: 4096}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("cannot serve the readiness: %w", err)
	}
	return nil
}
