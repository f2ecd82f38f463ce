package bridge_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"

	"dcm/cmd/dcm-kubernetes/internal/agent"
	"dcm/cmd/dcm-kubernetes/internal/bridge"
	"dcm/cmd/dcm-kubernetes/internal/cluster"
	"dcm/cmd/dcm-kubernetes/internal/desired"
)

// The agent is ready when dcm answers.
func TestReady(t *testing.T) {
	w := newWorld(t, "n1")
	client, err := cluster.New(&rest.Config{Host: w.api.URL, QPS: -1}, "dcm")
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "socket")
	reports := make(chan string)
	ctx, cancel := context.WithCancel(t.Context())
	b := &bridge.Bridge{Node: "n1", Self: cluster.Self{Namespace: "dcm", Name: "self"}, Cluster: client, Host: agent.Client{Socket: socket},
		Config: desired.Dir(w.dir), Times: w.times, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Ready: func(why string) {
			select {
			case reports <- why:
			case <-ctx.Done():
			}
		}}
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	if why := <-reports; why == "" {
		t.Error("ready without dcm")
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go w.dcm["n1"].Serve(l)
	for why := range reports {
		if why == "" {
			break
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
