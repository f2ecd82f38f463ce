package service

import (
	"context"
	"log/slog"
	"testing"

	"dcm/internal/engine/host"
)

// Of another tree there is no systemd to ask.
func TestTheGateIsThisHosts(t *testing.T) {
	g := &agentSocket{host: &host.Host{Root: t.TempDir()}, log: slog.New(slog.DiscardHandler)}
	g.set(context.Background(), true)
	if g.open {
		t.Error("it is said to be open")
	}
}
