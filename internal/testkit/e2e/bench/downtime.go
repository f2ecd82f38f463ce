package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// change is a pair of profiles that are applied alternately.
type change struct{ what, one, other string }

var (
	compute = change{"8 compute modes", "spx-nps1", "cpx-nps1"}
	memory  = change{"memory mode, driver reload", "spx-nps1", "cpx-nps4"}
)

// simulated measures the downtime of clients in a repartition of the simulated node. dcm reads
// thousands of files, and FUSE is some hundred times slower than sysfs, so the times are
// mostly the simulator's.
func (n *node) simulated(ctx context.Context, t *table) error {
	for _, c := range []change{compute, memory} {
		if err := n.downtime(ctx, t, "simulated driver", c, 2, n.rounds(7), 0); err != nil {
			return err
		}
	}
	return nil
}

// frozen measures the same with a copy of the simulated files in memory. The times are those of
// dcm and systemd.
func (n *node) frozen(ctx context.Context, t *table) error {
	if err := n.freeze(ctx); err != nil {
		return err
	}
	if err := n.downtime(ctx, t, "driver without latency", compute, 2, n.rounds(60), 1.1); err != nil {
		return err
	}
	if err := n.downtime(ctx, t, "driver without latency", compute, 50, n.rounds(15), 1.1); err != nil {
		return err
	}
	t.note("from the first client's stop to the last one's start, by systemd's own time stamps; the ways in turn. The sandbox is dcm-apply.service with /bin/true for its program, and clients restarted with it; dcm is an edit that the daemon, started again, finds")
	return nil
}

// freeze replaces the simulated files by a copy with all partitions, because dcm reads each of them.
func (n *node) freeze(ctx context.Context) error {
	if n.isFrozen {
		return nil
	}
	n.isFrozen = true
	if err := n.clients(ctx, 2); err != nil {
		return err
	}
	if err := n.apply(ctx, compute.other, 2); err != nil {
		return err
	}
	_, err := n.run(ctx, freeze)
	return err
}

const freeze = `set -e
systemctl stop dcm 'client-*'
mkdir /run/frozen
mount -t tmpfs -o mode=0755 tmpfs /run/frozen
cp --archive --parents /sys/class /sys/bus /sys/devices /sys/dev /sys/module /run/frozen
cd /run/frozen
mkdir -p dev/dri
for device in /dev/kfd /dev/dri/*; do : >.$device; done
for path in sys/* dev/*; do mount --bind $path /$path; done`

func (n *node) downtime(ctx context.Context, t *table, where string, c change, clients, rounds int, target float64) error {
	what := fmt.Sprintf("%d clients down: %s, %s", clients, c.what, where)
	n.say(what)
	if err := n.clients(ctx, clients); err != nil {
		return err
	}
	if err := n.apply(ctx, c.one, clients); err != nil {
		return err
	}
	ways := []way{{name: "bare restart"}, {name: "in dcm-apply's sandbox"}, {name: "dcm", target: target}}
	for i := range rounds {
		profile := c.other
		if i%2 == 1 {
			profile = c.one
		}
		for w, do := range []func() error{
			func() error { return n.bounce(ctx, "bare") },
			func() error { return n.bounce(ctx, "boxed") },
			func() error { return n.apply(ctx, profile, clients) },
		} {
			if err := do(); err != nil {
				return err
			}
			took, err := n.down(ctx)
			if err != nil {
				return err
			}
			ways[w].took = append(ways[w].took, took)
		}
	}
	t.compare(what, ways)
	return nil
}

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
