package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"dcm/internal/gpu/nvml/standin"
	"dcm/internal/testkit/e2e"
)

// onDemand is the configuration of a node whose leases make MIG instances.
const onDemand = `profile = "on-demand"
[[profiles.on-demand.group]]
mig = { "2g.20gb" = 1 }
count = 1
dynamic = true
[[profiles.on-demand.group]]
mig = { "1g.10gb" = 7 }
count = "rest"
`

// installMaker adds the sandbox of dcm-make@.service with an empty program, and the commands. The empty unit has
// no ExecStopPost=, since the end of an instance is not measured.
const installMaker = install + `
sed 's|^Exec\([A-Za-z]*\)=.*|Exec\1=/bin/true|; s|^RemainAfterExit=.*||; /^ExecStopPost=/d' dcm-make@.service >/etc/systemd/system/boxed-make.service
cp -r /etc/systemd/system/dcm-make@.service.d /etc/systemd/system/boxed-make.service.d
systemctl daemon-reload
systemctl start dcm
dcm apply
dcm status`

// makes measures a lease that makes its instance, on a node of its own. The library is a stand-in, so that a
// driver needs no time.
func (n *node) makes(ctx context.Context, t *table) error {
	const what = "a command with an instance made for it"
	n.say(what)
	node, err := n.migNode(ctx)
	if err != nil {
		return err
	}
	defer node.Close()
	// Between two commands the instance of the earlier one is destroyed, which is not measured.
	rest := "-/usr/local/bin/at-rest"
	commands := []string{"dcm run -- true", "/usr/local/bin/lease-and-oneshot", "dcm run --make 1g.10gb -- true"}
	took, err := probe[map[string][]time.Duration](ctx, node, "commands", strconv.Itoa(n.rounds(40)), rest, commands[0], rest, commands[1], rest, commands[2])
	if err != nil {
		node.Diagnose(ctx, os.Stderr)
		return err
	}
	t.compare(what, []way{
		{name: commands[0], took: took[commands[0]]},
		{name: "and an empty oneshot in dcm-make@'s sandbox", took: took[commands[1]]},
		{name: commands[2], took: took[commands[2]], target: 1.3},
	})
	t.note("from the command's start to its end, on a node of 8 H100 and a library without latency. The oneshot is started by systemctl after the lease")
	return nil
}

// migNode boots the node.
func (n *node) migNode(ctx context.Context) (*node, error) {
	lib, err := standin.Build(ctx, n.programs.dir)
	if err != nil {
		return nil, err
	}
	s, err := seed("h100-8", n.programs)
	if err != nil {
		return nil, err
	}
	if err := s.NVML(lib); err != nil {
		return nil, err
	}
	s["/etc/dcm/dcm.toml.d/50-bench.toml"] = e2e.File{Content: []byte(onDemand)}
	for _, unit := range []string{"dcm", "dcm-apply", "dcm-make@"} {
		s["/etc/systemd/system/"+unit+".service.d/sim.conf"] = e2e.File{Content: []byte("[Service]\nBindReadOnlyPaths=-/run/dcm-sim/proc/driver:/proc/driver\n")}
	}
	for name, script := range map[string]string{
		"lease-and-oneshot": "dcm run -- true && exec systemctl start boxed-make\n",
		"at-rest":           `exec e2e-agent await-command '! ls /dev/dcm-made 2>/dev/null | grep -q . && ! systemctl list-jobs --no-legend | grep -q .'` + "\n",
	} {
		s["/usr/local/bin/"+name] = e2e.File{Content: []byte("#!/bin/sh\n" + script), Mode: 0o755}
	}
	c, err := bootWith(ctx, n.programs, s, installMaker)
	if err != nil {
		return nil, fmt.Errorf("node with MIG: %w", err)
	}
	return &node{Container: c, short: n.short}, nil
}
