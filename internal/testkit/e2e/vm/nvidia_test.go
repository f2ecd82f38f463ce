package vm_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"dcm/internal/engine/runstate"
	"dcm/internal/testkit/e2e/vm"
)

// nvidiaOptions is a machine with two NVIDIA GPUs and no other GPUs.
var nvidiaOptions = vm.Options{GPUs: 2, Kernel: []string{"fakehive.nvidia=2"}}

// migSettings are profiles for both GPUs, and a client that has one open.
const migSettings = `profile = "off"
[clients]
units = ["inference"]
[profiles.off]
mig = "off"
[profiles.small]
mig = { "1g.10gb" = 7 }
[profiles.halves]
mig = { "3g.40gb" = 2 }
`

// configureMIG replaces the services for AMD GPUs.
func (m machine) configureMIG() {
	m.t.Helper()
	m.run("systemctl disable --now " + clients + "; systemctl reset-failed")
	m.put("/etc/systemd/system/inference.service", "[Service]\nExecStart=sh -c 'exec 3<>/dev/nvidia0 && exec sleep infinity'\n[Install]\nWantedBy=multi-user.target\n")
	m.put("/etc/dcm/dcm.toml", migSettings)
	m.run("systemctl daemon-reload; systemctl enable --now inference; systemctl restart dcm")
}

func (m machine) put(path, text string) {
	m.t.Helper()
	m.must(func(ctx context.Context) error { return m.Put(ctx, path, []byte(text), 0o644) })
}

// instances returns the number of GPU instances in /proc/driver/nvidia.
const instances = `ls -d /proc/driver/nvidia/capabilities/gpu*/mig/gi* 2>/dev/null | wc -l`

// migReboot: the driver shows the instances that dcm creates. A reboot loses them, and dcm creates them
// again before the clients start.
func migReboot(m machine) {
	m.configureMIG()
	m.expect(instances, "0")
	m.use("small")
	m.expect(instances, "14")
	m.expect("dcm partitions --json | grep -c nvidia-caps/nvidia-cap", "14")
	m.must(m.Reboot)
	m.expect(instances, "14")
	m.expect("systemctl is-active inference", "active")
	m.after("inference", "dcm-apply")
	m.run("dcm verify small; dcm partitions")
}

// migHolders: dcm names a process that has a node of a GPU open, stops no client, and makes the change after
// the process has ended.
func migHolders(m machine) {
	m.configureMIG()
	m.run("modprobe nvidia-drm modeset=0")
	m.use("small")
	before := m.run("systemctl show --property=MainPID --value inference")
	device := m.run("ls /dev/nvidia-caps | grep -v 'cap[12]$' | head -n 1")
	for i, node := range []string{"/dev/nvidia0", "/dev/nvidia-caps/" + device, "/dev/dri/renderD128"} {
		m.run(`systemd-run --quiet --unit=training sh -c "exec 3<$1; touch /run/held-$2; exec sleep infinity"`, node, fmt.Sprint(i))
		m.await(fmt.Sprintf("/run/held-%d", i), "")
		r := m.try("dcm use halves")
		m.t.Logf("%s: %d\n%s%s", node, r.Code, r.Stdout, r.Stderr)
		if r.Code == 0 || !strings.Contains(r.Stderr, "training.service") {
			m.t.Errorf("%s: exit status %d, the holder is not named:\n%s", node, r.Code, r.Stderr)
		}
		m.expect("systemctl show --property=MainPID --value inference", before)
		m.expect(instances, "14")
		m.run("systemctl stop training")
		m.use("halves")
		m.expect(instances, "4")
		m.use("small")
		before = m.run("systemctl show --property=MainPID --value inference")
	}
}

// migDRM: a kernel module holds the GPUs to show them on displays.
func migDRM(m machine) {
	m.configureMIG()
	m.run("modprobe nvidia-drm")
	r := m.try("dcm use small")
	m.t.Logf("%d\n%s%s\n%s", r.Code, r.Stdout, r.Stderr, m.try("dcm status; dcm holders; dcm gpus").Stdout)
	if r.Code == 0 || !strings.Contains(r.Stderr, "nvidia_drm") {
		m.t.Errorf("exit status %d, nvidia_drm is not named", r.Code)
	}
	m.expect(instances, "0")
	m.run("modprobe -r nvidia-drm")
	m.run("dcm apply")
	m.expect(instances, "14")
}

// migDevices: the guard, a reservation and a lease confine processes to the nodes of instances.
func migDevices(m machine) {
	m.configureMIG()
	m.put("/etc/systemd/system/holder.service", "[Service]\nExecStart=sleep infinity\n")
	m.put("/etc/dcm/dcm.toml", migSettings+"[[reservation]]\nunit = \"holder.service\"\npartitions = 2\nexclusive = true\n")
	m.run("systemctl daemon-reload")
	for i, profile := range []string{"small", "halves"} {
		m.use(profile)
		if i == 0 {
			m.run("systemctl start holder")
		}
		p := m.partitions()
		held := p.Reservations[0].Partitions
		private, all := p.nodes(held)
		if len(private) != 2 {
			m.t.Fatalf("reserved is %+v", p.Reservations)
		}
		m.opens("holder.service", `echo $$ >/sys/fs/cgroup$(systemctl show -P ControlGroup holder)/cgroup.procs; `+openable, all)
		open := strings.Fields(m.run(openable))
		for _, node := range private {
			if slices.Contains(open, node) {
				m.t.Errorf("a root shell opens %s, which is reserved exclusively", node)
			}
		}
		if want := len(strings.Fields(m.run("ls -d "+nodes))) - len(private); len(open) != want {
			m.t.Errorf("a root shell opens %d nodes, want %d: %s", len(open), want, open)
		}
		m.lease(p, held)
	}
}

const (
	nodes    = `/dev/nvidia[0-9]* /dev/nvidiactl /dev/nvidia-modeset /dev/nvidia-uvm* /dev/nvidia-caps/*`
	openable = `for node in ` + nodes + `; do (exec 3<"$node") 2>/dev/null && echo "$node"; done; true`
)

// opens compares the nodes that a script can open with the wanted ones.
func (m machine) opens(what, script string, want []string) {
	m.t.Helper()
	got := strings.Fields(m.run(script))
	slices.Sort(got)
	if !slices.Equal(got, want) {
		m.t.Errorf("%s opens %s, want %s", what, got, want)
	}
}

// lease checks that a lease can open only its own partition, and no reserved one.
func (m machine) lease(p partitions, reserved []string) {
	m.t.Helper()
	out := m.run(`dcm run -n 1 -- sh -c 'cat /proc/self/cgroup; echo; ` + openable + `'`)
	_, list, _ := strings.Cut(out, "\n\n")
	got := strings.Fields(list)
	slices.Sort(got)
	for _, part := range p.Parts {
		if _, all := p.nodes([]string{part.Name}); slices.Equal(all, got) && !slices.Contains(reserved, part.Name) {
			return
		}
	}
	m.t.Errorf("a lease of one partition opens %s, which are the nodes of no free one; reserved are %s", got, reserved)
}

// partitions is the content of /run/dcm/partitions.json.
type partitions struct{ runstate.Partitions }

func (m machine) partitions() (p partitions) {
	m.t.Helper()
	if err := json.Unmarshal([]byte(m.run("cat /run/dcm/partitions.json")), &p.Partitions); err != nil {
		m.t.Fatal(err)
	}
	return p
}

// nodes returns the nodes that only these partitions have, and all nodes that they need.
func (p partitions) nodes(names []string) (private, all []string) {
	for _, part := range p.Parts {
		if slices.Contains(names, part.Name) {
			private = append(private, part.Render)
			all = append(append(all, part.Render), part.Companions...)
		}
	}
	slices.Sort(all)
	return private, slices.Compact(all)
}
