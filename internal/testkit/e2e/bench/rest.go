package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

const mib = 1 << 20

// restarts measures a restart of the daemon without a change.
func (n *node) restarts(ctx context.Context, t *table) error {
	const what = "systemctl restart dcm, nothing to do"
	n.say(what)
	names := []string{"trivial.service", "boxed-trivial.service", "dcm.service"}
	took, err := probe[map[string][]time.Duration](ctx, n, append([]string{"restart", strconv.Itoa(n.rounds(40))}, names...)...)
	if err != nil {
		return err
	}
	t.compare(what, []way{
		{name: "trivial notify service", took: took[names[0]]},
		{name: "in dcm's sandbox", took: took[names[1]]},
		{name: "dcm", took: took[names[2]], target: 1.25},
	})
	t.note("how long systemctl restart takes; the sandbox is dcm.service with a program that says READY=1 and waits. 50 clients, and what the last change has left")
	return nil
}

// leases measures the duration of a command in a lease, without other leases and with many.
func (n *node) leases(ctx context.Context, t *table) error {
	if err := n.freeze(ctx); err != nil {
		return err
	}
	if err := n.clients(ctx, 50); err != nil {
		return err
	}
	if err := n.apply(ctx, compute.other, 50); err != nil {
		return err
	}
	for _, present := range []int{0, manyLeases} {
		what := fmt.Sprintf("a command in a scope, with %d leases", present)
		n.say(what)
		if _, err := n.run(ctx, holdLeases, strconv.Itoa(present)); err != nil {
			return err
		}
		commands := []string{"systemd-run --quiet --scope true", "dcm run -- true"}
		took, err := probe[map[string][]time.Duration](ctx, n, append([]string{"commands", strconv.Itoa(n.rounds(30))}, commands...)...)
		if err != nil {
			return err
		}
		t.compare(what, []way{{name: commands[0], took: took[commands[0]]}, {name: commands[1], took: took[commands[1]], target: 1.5}})
	}
	t.note("from the command's start to its end. dcm looks at the open files of every process, has PID 1 make the same scope, and gives the command a partition")
	_, err := n.run(ctx, "systemctl stop dcm.slice") // not by pattern: what ends meanwhile would be an error
	return err
}

// manyLeases leaves some of the node's 64 partitions free.
const manyLeases = 60

// holdLeases starts n leases and returns when their commands run.
const holdLeases = `mkfifo /run/started
exec 3<>/run/started
for i in $(seq "$1"); do setsid dcm run -- sh -c 'echo started >/run/started; exec sleep infinity' >/dev/null 2>&1 3>&- </dev/null & done
for i in $(seq "$1"); do read -r line <&3; done
rm /run/started`

// messages counts the bus messages of a start of the daemon without a change. The number does
// not depend on the load.
func (n *node) messages(ctx context.Context, t *table) error {
	n.say("messages of a start")
	sent, err := probe[map[string]int](ctx, n, "messages", "1", "dcm.service", "boxed-trivial.service")
	if err != nil {
		return err
	}
	t.heading("Messages over the bus of a start with nothing to do")
	for _, kind := range slices.Sorted(maps.Keys(sent)) {
		t.fact(kind, strconv.Itoa(sent[kind]), "")
	}
	t.note("what the daemon sends, as dbus-monitor sees it, until another unit was restarted after it. PID 1 is asked by its own socket, which passes no bus")
	return nil
}

// processor measures the processor time of the programs without a change: the CPU time of the
// unit less that of the same unit with a trivial program, which is due to its sandbox.
func (n *node) processor(ctx context.Context, t *table) error {
	n.say("processor time with nothing to do")
	t.heading("Processor time with nothing to do, in addition to the unit's sandbox")
	for _, p := range []struct{ what, unit, boxed, target string }{
		{"a start of the daemon", "dcm.service", "boxed-trivial.service", "target: at most 20 ms"},
		{"a run of the oneshot", "dcm-apply.service", "boxed.service", "target: at most 15 ms"},
	} {
		took, err := probe[map[string][]time.Duration](ctx, n, "processor", strconv.Itoa(n.rounds(20)), p.unit, p.boxed)
		if err != nil {
			return err
		}
		box, all := quantile(took[p.boxed], 2), quantile(took[p.unit], 2)
		t.fact(p.what, millis(all-box)+" ms", fmt.Sprintf("%s, in a sandbox of %s ms", p.target, millis(box)))
	}
	t.note("the medians of CPUUsageNSec= when the unit rests, less that of the same unit with a trivial program; the units in turn. 50 clients, GPUs in files without latency")
	return nil
}

// window is longer than what Go's runtime does by itself every two minutes.
const window = 125

// rest measures the idle daemon.
func (n *node) rest(ctx context.Context, t *table) error {
	text, err := n.run(ctx, "systemctl show --property=MainPID --value dcm")
	if err != nil {
		return err
	}
	pid := strings.TrimSpace(text)
	n.say("the daemon at rest")
	seconds := window
	if n.short {
		seconds = 10
	}
	type rest struct {
		Awake             []int
		Switches, Threads int
		CPU               time.Duration
	}
	r, err := probe[rest](ctx, n, "rest", pid, strconv.Itoa(seconds))
	if err != nil {
		return err
	}
	memory, err := residentMemory(ctx, n, pid)
	if err != nil {
		return err
	}
	t.heading("The daemon at rest")
	t.fact(fmt.Sprintf("moments awake in %d s", seconds), strconv.Itoa(len(r.Awake)), fmt.Sprintf("target: the watchdog's %d or %d", seconds/60, seconds/60+1))
	t.fact("context switches then", strconv.Itoa(r.Switches), fmt.Sprintf("%d threads", r.Threads))
	t.fact("processor time then", r.CPU.String(), "")
	t.fact("RSS", size(memory["VmRSS"]), "target: at most 11 MiB")
	// The container's programs are on tmpfs, so that they count as shared memory.
	t.fact("  of it the program's file", size(memory["RssFile"]+memory["RssShmem"]), "")
	t.note("a moment is a second in which any of its threads was on a processor, by /proc/PID/task/*/schedstat, beginning 35 s after its last work. It wakes for the watchdog each minute; what Go's runtime does by itself every two minutes falls into those moments. RSS is VmRSS of /proc/PID/status after that")
	return nil
}

// residentMemory reads the process's sizes in bytes, see proc_pid_status(5).
func residentMemory(ctx context.Context, n *node, pid string) (map[string]int64, error) {
	text, err := n.run(ctx, "cat /proc/$1/status", pid)
	if err != nil {
		return nil, err
	}
	sizes := make(map[string]int64)
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 3 || f[2] != "kB" {
			continue
		}
		kib, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil {
			return nil, err
		}
		sizes[strings.TrimSuffix(f[0], ":")] = kib << 10
	}
	return sizes, nil
}

// sizes returns the sizes of the installed programs.
func (n *node) sizes(ctx context.Context, t *table) error {
	t.heading("Programs")
	text, err := n.run(ctx, `find -L $(dpkg -L dcm) -maxdepth 0 -type f -path '*/dcm*' -perm /111 -printf '%p %s\n' | sort`)
	if err != nil {
		return err
	}
	for line := range strings.Lines(text) {
		path, bytes, _ := strings.Cut(strings.TrimSpace(line), " ")
		length, err := strconv.ParseInt(bytes, 10, 64)
		if err != nil {
			return err
		}
		target := ""
		if strings.HasSuffix(path, "/bin/dcm") {
			target = "target: below 12 MiB"
		}
		t.fact(path, size(length), target)
	}
	return nil
}

func size(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/mib) }
