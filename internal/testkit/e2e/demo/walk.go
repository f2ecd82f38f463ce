package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// reloadDelay is how long the simulated driver needs to load.
const reloadDelay = 2 * time.Second

// walk runs the steps of the demo.
func walk(ctx context.Context, s *show) {
	s.title("A server with eight MI300X: one partition each, two services use them")
	before, were := s.pids(ctx), s.modes(ctx)
	s.quiet(ctx, "dpkg --install /root/dcm_*.deb")
	s.quiet(ctx, listClients+" /etc/dcm/dcm.toml")
	s.live(ctx, "dcm status", 0)
	s.same(ctx, "the services were not touched", before)

	s.title("1. Select a profile")
	s.live(ctx, "dcm use cpx-nps4", 0)
	s.applied(ctx, 64)
	after := s.pids(ctx)
	s.check("both services were stopped and started again", after[0] != before[0] && after[1] != before[1], after)

	s.inTheWay(ctx)
	s.killed(ctx)
	s.leases(ctx)

	s.title("5. Reboot. The GPUs come up as one partition each, and dcm goes first")
	s.print("# systemctl reboot\n")
	if err := s.node.Reboot(ctx); err != nil {
		s.check("the node is up again", false, err)
		return
	}
	s.applied(ctx, 64)
	s.order(ctx)
	s.title("The node as it came, and as it is after every boot")
	s.print(picture(were, s.modes(ctx)))
}

// inTheWay shows that dcm stops no process that is not a client.
func (s *show) inTheWay(ctx context.Context) {
	s.title("2. A training job is in the way: dcm names it, and goes on when it has ended")
	s.quiet(ctx, "systemctl start training")
	const transient = 75
	s.live(ctx, "dcm use spx-nps1", transient)
	s.quiet(ctx, "systemctl stop training")
	s.await(ctx, "spx-nps1", "in-sync")
	s.applied(ctx, 8)
}

// killed shows that the services come back, whatever is killed.
func (s *show) killed(ctx context.Context) {
	s.title("3. kill -9 of dcm and of its run, in the middle of a driver reload")
	before := s.pids(ctx)
	s.print("# dcm use cpx-nps4 &      and during the reload:\n# systemctl kill --signal=KILL dcm dcm-apply\n")
	const kill = `dcm use cpx-nps4 >/dev/null 2>&1 & e2e-agent await /run/dcm/report.json '"profile": "cpx-nps4"' '"kind": "reload"' && systemctl kill --signal=KILL dcm dcm-apply; wait`
	s.ask(ctx, kill)
	s.await(ctx, "cpx-nps4", "in-sync")
	s.applied(ctx, 64)
	after := s.pids(ctx)
	s.check("both services are back", after[0] != before[0] && after[1] != before[1], after)
	s.live(ctx, "dcm history", 0)
}

// leases shows two leases, and how much of their partitions they use.
func (s *show) leases(ctx context.Context) {
	s.title("4. Two jobs get two partitions each; each job can open only its own")
	for _, job := range []string{"1", "2"} {
		s.quiet(ctx, "dcm run -n 2 -- train "+job+" >/dev/null 2>&1 &")
		s.ask(ctx, "e2e-agent await "+trainLog+" 'job "+job+" has'")
	}
	log := s.ask(ctx, "cat "+trainLog)
	s.check("each job can open 2 of 64 partitions", strings.Count(log, "can open 2 of 64 partitions") == 2, log)
	s.busy(ctx)
	if s.terminal {
		const still = 124 // timeout(1)
		s.live(ctx, "timeout --foreground 4 dcm top", still)
	}
	s.live(ctx, "dcm topology", 0)
	s.ask(ctx, "kill "+strings.Join(s.jobs(ctx), " "))
}

// busy makes the simulated GPUs report what the processes of the leases do.
func (s *show) busy(ctx context.Context) {
	const gib = 1 << 30
	pids := s.jobs(ctx)
	s.check("both jobs run", len(pids) == 2, pids)
	for i, pid := range pids {
		for n := range 2 {
			use := fmt.Sprintf(`{"partition":"0000:05:00.0-%d","busy":%d,"pid":%s,"vram":%d}`, 2*i+n, 91-35*i-7*n, pid, (20-9*i)*gib)
			s.ask(ctx, `echo "$1" >/run/dcm-sim/ctl/use`, use)
		}
	}
}

// jobs returns the PIDs of both jobs.
func (s *show) jobs(ctx context.Context) []string {
	return strings.Fields(s.ask(ctx, "sed -n 's/^job [12] has PID \\([0-9]*\\).*/\\1/p' "+trainLog))
}

// applied checks the number of partitions, and that the profile is on the GPUs and both services are active.
func (s *show) applied(ctx context.Context, partitions int) {
	n := s.ask(ctx, "cat /sys/class/kfd/kfd/topology/nodes/*/gpu_id | grep -vxc 0")
	s.check(fmt.Sprintf("the driver shows %d partitions", partitions), n == strconv.Itoa(partitions), n)
	verified := s.ask(ctx, "dcm verify >/dev/null 2>&1; echo $?")
	s.check("every GPU has the modes of the profile", verified == "0", verified)
	up := s.ask(ctx, "systemctl is-active amd-metrics-exporter gpuagent")
	s.check("both services are active", up == "active\nactive", up)
}

// order compares the end of the run at boot with the start of the services.
func (s *show) order(ctx context.Context) {
	boot := s.time(ctx, "UserspaceTimestampMonotonic", "")
	over := s.time(ctx, "ExecMainExitTimestampMonotonic", "dcm-apply")
	for _, unit := range []string{"amd-metrics-exporter", "gpuagent"} {
		began := s.time(ctx, "ExecMainStartTimestampMonotonic", unit)
		what := fmt.Sprintf("dcm had finished %d ms after the boot began; %s started later, after %d ms", (over-boot)/1000, unit, (began-boot)/1000)
		s.check(what, over > boot && began >= over, "the order is wrong")
	}
}

// time returns a timestamp in µs, of a unit or with "" of PID 1. It returns -1 if there is none.
func (s *show) time(ctx context.Context, property, unit string) int64 {
	n, err := strconv.ParseInt(s.ask(ctx, `systemctl show --property="$1" --value $2`, property, unit), 10, 64)
	if err != nil {
		return -1
	}
	return n
}
