package e2e_test

import (
	"fmt"
	"slices"
	"strings"

	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/status"
)

// serving adds services that create instances on GPU 3, one of them a template.
const serving = dynamic + `
[[reservation]]
unit = "served"
make = "3g.40gb"
gpus = [3]
[[reservation]]
unit = "each@"
make = "1g.10gb"
`

// restarted is a service that systemd restarts when it ends.
const restarted = "[Service]\nExecStart=sleep infinity\nRestart=always\nRestartSec=1\n"

// withServices selects the profile, and defines the services.
func (m machine) withServices() {
	m.t.Helper()
	m.run("systemctl disable served each@1 each@2 2>/dev/null; systemctl stop served 'each@*' 2>/dev/null; true")
	m.put("/etc/systemd/system/served.service", restarted)
	m.put("/etc/systemd/system/each@.service", holder)
	m.onDemand()
	m.put(settings, serving)
	m.run("systemctl daemon-reload; systemctl restart dcm; " + waitFor("systemctl show -p Requires served | grep -q dcm-make@"))
	m.nothingMade()
}

// nothingMade waits until no instance was created on demand.
func (m machine) nothingMade() {
	m.t.Helper()
	m.until("ls -R /dev/dcm-made; systemctl list-units --all 'dcm-make@*'; [ -z \"$(ls /dev/dcm-made 2>/dev/null)\" ]")
	// The daemon's status follows the list.
	m.until("dcm partitions; [ $(dcm partitions --all | grep -c '" + dynamicGPU + "-') = 1 ]")
	if parts := m.partsOf(dynamicGPU); len(parts) != 1 || parts["2g.20gb"].Name == "" {
		m.t.Errorf("partitions without services: want 2g.20gb, got %+v", parts)
	}
}

// made returns the partition that a unit has: that of the link in its directory below /dev/dcm.
func (m machine) made(dir string) runstate.Part {
	m.t.Helper()
	node := m.run("readlink /dev/dcm/" + dir + "/render0")
	d := m.deal()
	i := slices.IndexFunc(d.Parts, func(p runstate.Part) bool { return p.Render == node })
	if i < 0 {
		m.t.Fatalf("/dev/dcm/%s: no partition has the node %s: %+v", dir, node, d.Parts)
	}
	return d.Parts[i]
}

// madeForServices: services have instances of their own while they run.
func madeForServices(m machine) {
	m.withServices()
	m.run("systemctl start served each@1 each@2")
	parts := map[string]runstate.Part{"served.service": m.made("served"), "each@1.service": m.made("each:1"), "each@2.service": m.made("each:2")}
	d := m.deal()
	if len(m.account().Parts) != len(d.Parts) || parts["each@1.service"].Name == parts["each@2.service"].Name || parts["served.service"].Kind != "nvidia 3g.40gb" {
		m.t.Errorf("partitions of services: got %+v", parts)
	}
	for unit, own := range parts {
		m.can(unit, d, false, append(slices.Clone(own.Companions), own.Render))
		if got := m.run("dcm partitions --all | grep " + own.Name); !strings.Contains(got, unit) {
			m.t.Errorf("dcm partitions: want %s with %s, got\n%s", own.Name, unit, got)
		}
	}
	for _, device := range []string{"reservation-served", "reservation-each:1", "reservation-each:2"} {
		m.run("grep -q '\"" + device + "\"' /run/cdi/dcm.json")
	}
	m.exits(0, "dcm status")
	m.exits(0, "dcm plan")
	a := m.account()
	if i := slices.IndexFunc(a.Reserved, func(r status.Reserved) bool { return r.Name == "each" }); i < 0 || a.Reserved[i].Make != "1g.10gb" || len(a.Reserved[i].Partitions) != 2 {
		m.t.Errorf("reservations in the status: %+v", a.Reserved)
	}
	if len(a.Unconfined) > 0 {
		m.t.Errorf("unconfined: %+v", a.Unconfined)
	}
	m.exits(75, "dcm run --make 3g.40gb -- true", "served.service", dynamicGPU)
	// The instances have all slots: 2 of the profile's, 4 of served and 1 each of the template's.
	m.until("dcm topology; dcm topology | grep -q 'Dynamic: 0000:61:00.0: 0 free memory slots'")

	// The instance stays while systemd restarts the service.
	before := m.partsOf(dynamicGPU)["3g.40gb"].DriverID
	m.run("systemctl restart served; kill -KILL $(systemctl show -p MainPID --value served); " + waitFor("[ $(systemctl show -p NRestarts --value served) = 1 ] && systemctl is-active -q served"))
	if now := m.partsOf(dynamicGPU)["3g.40gb"].DriverID; now != before {
		m.t.Errorf("instance after restarts of the service: got %v, want %v", now, before)
	}
	// It also stays if the administrator restarts dcm-apply.service, with which systemd restarts the service.
	m.run("systemctl restart dcm-apply && dcm status; " + waitFor("systemctl is-active -q served"))
	if now := m.partsOf(dynamicGPU)["3g.40gb"].DriverID; now != before {
		m.t.Errorf("instance after a restart of dcm-apply: got %v, want %v", now, before)
	}
	// The end of one service destroys its instance only.
	m.run("systemctl stop each@1; " + waitFor("[ ! -e /dev/dcm/each:1 ] && ! ls /dev/dcm-made | grep -q each@1"))
	if other := m.made("each:2"); other.UUID != parts["each@2.service"].UUID || m.partsOf(dynamicGPU)["3g.40gb"].DriverID != before {
		m.t.Errorf("after the end of each@1: each@2 has %+v", other)
	}
	m.run("systemctl stop served")
	m.gone("3g.40gb")
	if _, u := m.partitionHours("--by unit"); u["served.service"].Runs < 2 || u["served.service"].Seconds <= 0 || u["each@1.service"].Seconds <= 0 || u["each@2.service"].Seconds <= 0 {
		m.t.Errorf("usage of the services: got %+v", u)
	}

	// A lease has the slots: the service does not start, and the journal has the reason.
	lease := m.lessee("--make 3g.40gb")
	m.exits(1, "systemctl start served", "dependency")
	journal := m.run("journalctl -o cat -u dcm-make@3g.40gb_served.service.service | tail -n 20")
	for _, text := range []string{"served", "no room for 3g.40gb", lease} {
		if !strings.Contains(journal, text) {
			m.t.Errorf("journal: want %q in\n%s", text, journal)
		}
	}
	m.run("dcm release " + lease)
	m.gone("3g.40gb")
	m.run("systemctl start served && systemctl stop served 'each@*'")
	m.nothingMade()

	// dcm check rejects what no GPU can have.
	for text, want := range map[string]string{
		strings.Replace(serving, "dynamic = true\n", "", 1):                                                                           "dynamic",
		strings.Replace(serving, `make = "3g.40gb"`, `make = "7g.80gb"`, 1):                                                           "7g.80gb",
		strings.Replace(serving, `make = "3g.40gb"`, `make = "5g.55gb"`, 1):                                                           "5g.55gb",
		strings.Replace(serving, "gpus = [3]\n[[reservation]]\nunit = \"each@\"", "gpus = [2]\n[[reservation]]\nunit = \"each@\"", 1): "none of its GPUs is dynamic",
	} {
		m.put("/run/other.toml", text)
		m.exits(1, "dcm check /run/other.toml", want)
	}
	m.exits(0, "dcm check")
}

// madeAndChanged: the profile and the reservations change while services have instances.
func madeAndChanged(m machine) {
	m.withServices()
	m.run("systemctl start served each@1")
	// Next to this geometry there is room for both instances.
	m.put(settings, strings.Replace(serving, `{ "2g.20gb" = 1 }`, `{ "1g.10gb" = 2 }`, 1))
	m.run("dcm apply && systemctl is-active served each@1")
	if own := m.made("served"); own.Kind != "nvidia 3g.40gb" {
		m.t.Errorf("partition after the change: got %+v", own)
	}
	m.made("each:1")
	m.exits(0, "dcm status")
	// The reservation changes: the service is restarted with another instance.
	m.put(settings, strings.Replace(serving, `make = "3g.40gb"`, `make = "2g.20gb"`, 1))
	m.run("dcm apply")
	m.until("readlink /dev/dcm/served/*; dcm partitions; systemctl is-active served && dcm partitions | grep served.service | grep -q 2g.20gb")
	m.until("ls /dev/dcm-made; [ \"$(ls /dev/dcm-made | grep -c served)\" = 1 ]")
	m.exits(0, "dcm status")
	// The reservations are removed.
	m.put(settings, dynamic)
	m.run("systemctl reload dcm")
	m.nothingMade()
	m.run("systemctl is-active served each@1; systemctl stop served each@1; [ ! -e /dev/dcm/served ] && [ ! -e /dev/dcm/each:1 ]")
}

// madeServiceKilled: the maker or the daemon is killed while a service gets its instance, or loses it.
func madeServiceKilled(m machine) {
	m.withServices()
	for _, killed := range []string{"systemctl kill --signal=KILL 'dcm-make@*'", "systemctl kill --signal=KILL 'dcm-make@*' dcm", "systemctl kill --signal=KILL dcm"} {
		m.knob("hang nvmlGpuInstanceCreateComputeInstance")
		m.run("systemctl start --no-block served; " + waitFor("ls /dev/dcm-made | grep -q 3g.40gb"))
		m.run(killed + "; sync")
		m.knob("")
		m.run(waitFor("[ -z \"$(systemctl list-jobs --no-legend)\" ]"))
		m.run("systemctl start served && systemctl is-active served")
		m.made("served")
		m.run("systemctl stop served; systemctl start dcm")
		m.nothingMade()
	}
	// The maker is killed while it destroys the instance. The daemon repeats that.
	m.run("systemctl start served")
	m.knob("hang nvmlGpuInstanceDestroy")
	m.run("systemctl stop --no-block served; " + waitFor("[ $(systemctl show -p ActiveState --value dcm-make@3g.40gb_served.service.service) = deactivating ]"))
	m.run("systemctl kill --signal=KILL 'dcm-make@*'")
	m.knob("")
	m.nothingMade()
	// The service is killed with its maker.
	for delay := range 6 {
		m.run(fmt.Sprintf("systemctl start --no-block served each@1; sleep 0.%d; systemctl kill --signal=KILL 'dcm-make@*' dcm; systemctl stop served each@1; systemctl start dcm", delay))
	}
	m.nothingMade()
	m.exits(0, "dcm status")
}

// madeAfterReboot: at boot the services get their instances after the profile was applied.
func madeAfterReboot(m machine) {
	m.withServices()
	m.run("systemctl enable served 2>/dev/null; systemctl add-wants multi-user.target served each@1; systemctl start served each@1")
	m.reboot()
	m.run(waitFor("systemctl is-active -q served each@1"))
	if a, b := m.made("served"), m.made("each:1"); a.Kind != "nvidia 3g.40gb" || b.Kind != "nvidia 1g.10gb" {
		m.t.Errorf("partitions after a reboot: got %+v and %+v", a, b)
	}
	m.exits(0, "dcm status")
	m.run("rm -f /etc/systemd/system/multi-user.target.wants/served.service /etc/systemd/system/multi-user.target.wants/each@1.service; systemctl daemon-reload; systemctl stop served each@1")
	m.nothingMade()
}
