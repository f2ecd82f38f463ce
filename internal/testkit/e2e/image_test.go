package e2e_test

import (
	"maps"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/e2e"
)

// brought is the command of dcm.service(8) that runs dcm's image. Its arguments follow.
const brought = "podman run --network=none --security-opt=label=disable --volume=/:/host:rslave "

// TestHostImage runs dcm's image in a podman container on a host without dcm's package. It
// controls the systemd of the host.
func TestHostImage(t *testing.T) {
	if os.Getenv("DCM_IMAGE") == "" {
		t.Skip("dcm's image is tried by make test-host-image, which sets DCM_IMAGE")
	}
	requireContainers(t)
	dist := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `make --directory=../../.. host-image VERSION=0.1.0 DIST="$1" && tar -C "$1" -cf "$1/dcm.tar" dcm.oci`, "sh", dist)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cannot make the image: %v\n%s", err, text)
	}
	seed, err := e2e.Node("mi300x-8", build(t, "dcm/cmd/dcm-sim"))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(seed, podmanHere())
	seed[e2e.DevicePrograms] = e2e.File{Content: []byte("podman has one for each container\n")}
	m := boot(t, e2e.Podman("trixie"), build(t, "./agent"), seed)
	m.put("/root/dcm.tar", string(only(t, dist+"/dcm.tar")))
	m.put(settings, selecting("cpx-fast")+agentsOn)
	m.run("tar -C /root -xf /root/dcm.tar; podman pull --quiet oci:/root/dcm.oci; podman tag $(podman images --quiet) localhost/dcm")
	t.Log(m.run("podman images"))
	for _, s := range []struct {
		name string
		run  func(machine)
	}{
		{"container installs dcm", imageBrings},
		{"edit restarts the clients", imageRestarts},
		{"dcm runs without the container", imageKilled},
		{"clients start first after reboot", imageRebooted},
		{"removal restarts no client", imageRemoved},
	} {
		if !t.Run(s.name, func(t *testing.T) { s.run(m.in(t)) }) {
			t.FailNow()
		}
	}
}

func clients() []string { return []string{"amd-metrics-exporter.service", "gpuagent.service"} }

func imageBrings(m machine) {
	before := m.units(clients()...)
	m.run(brought + "--detach --name=dcm localhost/dcm")
	m.watching(1)
	m.applied("cpx-fast")
	m.has(partition.Mode{Compute: partition.CPX, Memory: "NPS1"})
	m.bounced(before)
	m.opened("active")
	m.t.Log(m.run("/var/lib/dcm/image/dcm status; systemctl list-units --all 'dcm*'; podman logs dcm; ls -lR /run/systemd/system /run/systemd/system-generators /var/lib/dcm"))
	if !strings.Contains(m.run("busctl --no-pager tree org.deviceconfig.Manager1"), "/org/deviceconfig/Manager1") {
		m.t.Error("bus: want dcm's name")
	}
}

func imageRestarts(m machine) {
	before := m.units(clients()...)
	m.put(settings, selecting("spx-fast")+agentsOn)
	m.applied("spx-fast")
	m.has(spx)
	m.bounced(before)
	m.run("/var/lib/dcm/image/dcm use cpx-fast")
	m.has(partition.Mode{Compute: partition.CPX, Memory: "NPS1"})
}

func imageKilled(m machine) {
	before := m.units(append(clients(), "dcm.service")...)
	m.run("podman kill dcm >/dev/null; podman wait dcm >/dev/null || :")
	m.untouched(before)
	before = m.units(clients()...)
	m.put(settings, selecting("spx-fast")+agentsOn)
	m.applied("spx-fast")
	m.bounced(before)
	m.run("podman start dcm")
	m.watching(2)
	// A stop of the container stops the daemon. The clients of PID 1 continue.
	before = m.units(clients()...)
	m.run("podman stop dcm >/dev/null")
	m.until("! systemctl is-active --quiet dcm")
	m.untouched(before)
	m.put(settings, selecting("cpx-fast")+agentsOn)
	m.run("systemctl restart dcm-apply")
	m.rested(clients()...)
	m.has(partition.Mode{Compute: partition.CPX, Memory: "NPS1"})
	m.bounced(before)
	before = m.units(clients()...)
	m.run("podman start dcm")
	m.watching(3)
	m.applied("cpx-fast")
	m.untouched(before)
}

// watching waits until the daemon runs in the container for the nth time, by its log.
func (m machine) watching(n int) {
	m.t.Helper()
	m.until(`[ "$(podman logs dcm 2>&1 | grep -c "dcm.service runs")" -ge "$1" ] && systemctl is-active --quiet dcm`, strconv.Itoa(n))
}

func imageRebooted(m machine) {
	m.reboot()
	if after := m.show("gpuagent.service", "After")["After"]; strings.Contains(after, "dcm-apply") {
		m.t.Errorf("order of gpuagent: want no dcm-apply, got %s", after)
	}
	m.t.Logf("modes after the clients have started: %v", m.modes())
	before := m.units(clients()...)
	m.run("podman start dcm")
	m.until("systemctl is-active --quiet dcm")
	m.applied("cpx-fast")
	m.has(partition.Mode{Compute: partition.CPX, Memory: "NPS1"})
	m.bounced(before)
}

func imageRemoved(m machine) {
	before := m.units(clients()...)
	m.run("podman rm --force dcm >/dev/null")
	m.run(brought + "--rm localhost/dcm remove")
	m.run("[ ! -e /var/lib/dcm/image ] && [ ! -L /run/systemd/system-generators/dcm-generator ] && [ ! -e /run/systemd/system/dcm.service ]")
	m.untouched(before)
	m.t.Log(m.run("systemctl list-units --all 'dcm*'; find / -xdev -name '*dcm*' -not -path '/proc/*' -not -path '/root/*' -not -path '*/containers/*' -not -path '/e2e/*' | sort"))
	if r := m.try("systemctl cat dcm-apply"); r.Code == 0 {
		m.t.Errorf("units after the removal: want none, got %s", r.Stdout)
	}
	m.has(partition.Mode{Compute: partition.CPX, Memory: "NPS1"})
}
