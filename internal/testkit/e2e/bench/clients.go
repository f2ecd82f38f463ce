package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// settings is the configuration of the measurements.
const settings = "/etc/dcm/dcm.toml.d/50-bench.toml"

func client(i int) string { return fmt.Sprintf("client-%02d.service", i) }

// clients replaces the client units by a number of new ones, some of which have the GPUs open,
// and starts them. dcm and the alternatives in the comparison have the same clients.
func (n *node) clients(ctx context.Context, count int) error {
	_, err := n.run(ctx, `systemctl stop dcm 'client-*'; rm -f /run/systemd/system/client-*`)
	var names []string
	for i := 0; err == nil && i < count; i++ {
		program := "sleep infinity"
		if i%10 == 0 {
			program = "gpu-client"
		}
		text := "[Unit]\nPartOf=bare.service boxed.service\nAfter=bare.service boxed.service\n" +
			"StartLimitIntervalSec=0\n[Service]\nExecStart=" + program + "\n"
		err = n.Put(ctx, "/run/systemd/system/"+client(i), []byte(text), 0o644)
		names = append(names, client(i))
	}
	if err != nil {
		return err
	}
	all := strings.Join(names, " ")
	last := "[Unit]\nAfter=" + all + "\nStartLimitIntervalSec=0\n[Service]\nType=oneshot\nExecStart=/bin/true\n"
	if err := n.Put(ctx, "/run/systemd/system/last.service", []byte(last), 0o644); err != nil {
		return err
	}
	_, err = n.run(ctx, "systemctl daemon-reload && systemctl start bare boxed "+all)
	return err
}

// apply restarts the daemon, which applies the profile.
func (n *node) apply(ctx context.Context, profile string, clients int) error {
	var names []string
	for i := range clients {
		names = append(names, strconv.Quote(client(i)))
	}
	text := fmt.Sprintf("profile = %q\n[clients]\nunits = [%s]\n", profile, strings.Join(names, ", "))
	if _, err := n.run(ctx, "systemctl stop dcm"); err != nil {
		return err
	}
	if err := n.Put(ctx, settings, []byte(text), 0o644); err != nil {
		return err
	}
	_, err := n.run(ctx, "systemctl start dcm && dcm verify")
	return err
}

// bounce restarts a unit with the clients. "last" is ordered after them, so that its start waits
// for theirs.
func (n *node) bounce(ctx context.Context, unit string) error {
	_, err := n.run(ctx, `systemctl restart "$1" && systemctl start last`, unit)
	return err
}

// down returns the downtime of the clients in their last restart: from the stop of the first one
// until the last one is active.
func (n *node) down(ctx context.Context) (time.Duration, error) {
	text, err := n.run(ctx, `systemctl show --property=ActiveState,ActiveExitTimestampMonotonic,ActiveEnterTimestampMonotonic 'client-*'`)
	if err != nil {
		return 0, err
	}
	var from, to int64
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		at, err := strconv.ParseInt(value, 10, 64)
		switch {
		case key == "ActiveState" && value != "active":
			return 0, fmt.Errorf("state of a client: %s\n%s", value, text)
		case err != nil: // another property
		case key == "ActiveExitTimestampMonotonic" && (from == 0 || at < from):
			from = at
		case key == "ActiveEnterTimestampMonotonic":
			to = max(to, at)
		}
	}
	return time.Duration(to-from) * time.Microsecond, nil
}
