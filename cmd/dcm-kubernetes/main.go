// Command dcm-kubernetes is the agent of one node. It applies the profile that a label of
// the node selects through dcm on the host, and drains the node before. It runs as a
// DaemonSet; see packaging/kubernetes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"dcm/cmd/dcm-kubernetes/internal/agent"
	"dcm/cmd/dcm-kubernetes/internal/bridge"
	"dcm/cmd/dcm-kubernetes/internal/cluster"
	"dcm/cmd/dcm-kubernetes/internal/desired"
	"dcm/cmd/dcm-kubernetes/internal/feature"
	"dcm/cmd/dcm-kubernetes/internal/readiness"
	"dcm/cmd/dcm-kubernetes/internal/sequence"
	"dcm/cmd/dcm-kubernetes/internal/vendor"
)

// version is set at build time.
var version = "unknown"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Getenv, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "dcm-kubernetes:", err)
		os.Exit(1)
	}
}

// options are the options of the command line. A manifest sets environment variables from
// the pod's fields.
type options struct {
	node, namespace, pod      string
	leases                    string
	socket, config, features  string
	server, token, ca         string
	drain, refresh, retry     time.Duration
	look, budget              time.Duration
	listen                    string
	verbose, printVersionOnly bool
}

func parse(args []string, env func(string) string, to io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("dcm-kubernetes", flag.ContinueOnError)
	f.SetOutput(to)
	f.StringVar(&o.node, "node", env("NODE_NAME"), "`name` of the node")
	f.StringVar(&o.namespace, "namespace", env("POD_NAMESPACE"), "`namespace` of this pod")
	f.StringVar(&o.leases, "budget-namespace", "dcm-budget", "`namespace` of the budget's Leases")
	f.StringVar(&o.pod, "pod", env("POD_NAME"), "`name` of this pod")
	f.StringVar(&o.socket, "socket", "/run/dcm-agent/socket", "`path` of the socket of dcm on the host")
	f.StringVar(&o.config, "config", "/etc/config-manager", "`directory` in which the ConfigMap is mounted")
	f.StringVar(&o.features, "features", "", "`file` for Node Feature Discovery; empty for none")
	f.StringVar(&o.server, "server", "", "`address` of the API server, outside of a pod")
	f.StringVar(&o.token, "token", "", "`file` with the token for the API server")
	f.StringVar(&o.ca, "ca", "", "`file` with the certificate authority of the API server")
	f.DurationVar(&o.drain, "drain", 30*time.Minute, "time limit for the drain, 0 for none; afterwards the change is abandoned")
	f.DurationVar(&o.refresh, "refresh", 10*time.Minute, "time after which a warning says that the device plugin does not report the partitions")
	f.DurationVar(&o.retry, "retry", 30*time.Minute, "time after which a failed change is retried, if a retry may succeed")
	f.DurationVar(&o.look, "look", 5*time.Second, "polling interval during a change")
	f.DurationVar(&o.budget, "wait", 15*time.Second, "polling interval of a node that waits for the budget")
	f.StringVar(&o.listen, "listen", "", "`address` that serves "+readiness.Path+", such as :8086; empty for none")
	f.BoolVar(&o.verbose, "verbose", false, "log debug messages")
	f.BoolVar(&o.printVersionOnly, "version", false, "print the version")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("unknown argument %q", f.Arg(0))
	case o.printVersionOnly:
		return o, nil
	case o.node == "":
		return o, errors.New("-node: missing. hint: set -node or NODE_NAME")
	case o.namespace == "":
		return o, errors.New("-namespace: missing. hint: set -namespace or POD_NAMESPACE")
	}
	for name, d := range map[string]time.Duration{"drain": o.drain, "refresh": o.refresh, "retry": o.retry, "look": o.look, "wait": o.budget} {
		if d < 0 || d == 0 && name != "drain" {
			return o, fmt.Errorf("-%s: out of range (found %s, want more than 0)", name, d)
		}
	}
	return o, nil
}

func run(ctx context.Context, args []string, env func(string) string, to io.Writer) error {
	o, err := parse(args, env, to)
	if err != nil {
		return err
	}
	if o.printVersionOnly {
		fmt.Fprintln(to, version)
		return nil
	}
	access, err := access(o)
	if err != nil {
		return err
	}
	client, err := cluster.New(access, o.leases)
	if err != nil {
		return err
	}
	level := slog.LevelInfo
	if o.verbose {
		level = slog.LevelDebug
	}
	b := &bridge.Bridge{
		Node:     o.node,
		Self:     cluster.Self{Namespace: o.namespace, Name: o.pod},
		Cluster:  client,
		Host:     agent.Client{Socket: o.socket},
		Config:   desired.Dir(o.config),
		Features: feature.File(o.features),
		Times:    sequence.Times{Drain: o.drain, Refresh: o.refresh, Retry: o.retry, Look: o.look, Budget: o.budget, Reread: time.Minute, Lease: time.Minute, Heartbeat: 10 * time.Minute},
		Log:      slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{Level: level})),
	}
	var ready readiness.State
	if o.listen != "" {
		l, err := net.Listen("tcp", o.listen)
		if err != nil {
			return fmt.Errorf("-listen: %w", err)
		}
		b.Ready = ready.Set
		go func() {
			if err := ready.Serve(ctx, l); err != nil {
				b.Log.Error(err.Error())
			}
		}()
	}
	klog.SetSlogLogger(b.Log) // log messages of client-go
	b.Log.Info("dcm-kubernetes", "version", version, "node", o.node, "tested", vendor.Versions())
	return b.Run(ctx)
}

// access returns the pod's own access to the API server, or that of the command line.
func access(o options) (*rest.Config, error) {
	config := &rest.Config{Host: o.server, BearerTokenFile: o.token, TLSClientConfig: rest.TLSClientConfig{CAFile: o.ca}}
	if o.server == "" {
		var err error
		if config, err = rest.InClusterConfig(); err != nil {
			return nil, fmt.Errorf("cannot find the API server: %w", err)
		}
	}
	config.UserAgent = "dcm-kubernetes/" + version
	config.QPS, config.Burst = 20, 40
	return config, nil
}
