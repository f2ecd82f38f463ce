package main

import (
	"context"
	"fmt"
	"strconv"
)

// walk runs the steps of the demo.
func walk(ctx context.Context, s *show) {
	s.title("A server with eight MI300X, as it comes: one partition each, two services on them")
	s.command(ctx, "systemctl --version | head -n 1")
	s.command(ctx, "systemctl is-active amd-metrics-exporter gpuagent")
	before := s.pids(ctx)
	were := s.modes(ctx)

	s.title("1. Install the package. It touches nothing until a profile is selected")
	s.command(ctx, "dpkg --install /root/dcm_*.deb")
	s.command(ctx, "dcm status")
	s.same(ctx, "the services have run on", before)

	s.title("2. Take over the configuration that Kubernetes nodes have today")
	s.command(ctx, "cat /root/config.json")
	s.command(ctx, "dcm import /root/config.json >/etc/dcm/dcm.toml.d/10-kubernetes.toml")
	s.command(ctx, "dcm profiles")

	s.title("3. Set the profile in /etc/dcm/dcm.toml")
	s.command(ctx, `sed -i 's/^#profile = .*/profile = "cpx-profile"/' /etc/dcm/dcm.toml`)
	s.command(ctx, "grep -n ^profile /etc/dcm/dcm.toml")

	s.title("4. Restart dcm. It returns when the profile is on the GPUs")
	s.command(ctx, "systemctl restart dcm")
	s.applied(ctx)
	after := s.pids(ctx)
	s.check("both services were stopped and started again", after[0] != before[0] && after[1] != before[1], after)

	s.title("Once more: there is nothing to do, so no service is touched")
	s.command(ctx, "systemctl restart dcm")
	s.same(ctx, "the services have run on", after)

	s.title("Reboot. The GPUs come up as one partition each, and dcm goes first")
	fmt.Fprintln(s.w, "# systemctl reboot")
	if err := s.node.Reboot(ctx); err != nil {
		s.check("the node is up again", false, err)
		return
	}
	s.applied(ctx)
	s.order(ctx)
	s.title("The node as it came, and as it is after every boot")
	s.show(picture(were, s.modes(ctx)))
}

// applied shows that eight GPUs have 64 partitions and both services are active.
func (s *show) applied(ctx context.Context) {
	s.command(ctx, "dcm status")
	s.command(ctx, "dcm verify")
	n := s.ask(ctx, "cat /sys/class/kfd/kfd/topology/nodes/*/gpu_id | grep -vxc 0")
	s.check("64 partitions are there", n == "64", n)
	modes := s.ask(ctx, "cd /sys/bus/pci/devices; sort -u */current_compute_partition */current_memory_partition")
	s.check("every GPU reads CPX and NPS4", modes == "CPX\nNPS4", modes)
	up := s.ask(ctx, "systemctl is-active amd-metrics-exporter gpuagent")
	s.check("both services are up", up == "active\nactive", up)
}

// order compares the end of the run at boot with the start of the services.
func (s *show) order(ctx context.Context) {
	boot := s.time(ctx, "UserspaceTimestampMonotonic", "")
	over := s.time(ctx, "ExecMainExitTimestampMonotonic", "dcm-apply")
	for _, unit := range []string{"amd-metrics-exporter", "gpuagent"} {
		began := s.time(ctx, "ExecMainStartTimestampMonotonic", unit)
		what := fmt.Sprintf("the run was over %d ms after the boot began, %s was started after %d ms", (over-boot)/1000, unit, (began-boot)/1000)
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
