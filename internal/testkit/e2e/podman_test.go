package e2e_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"dcm/internal/engine/runstate"
	"dcm/internal/testkit/e2e"
	"dcm/internal/testkit/examples"
)

// look is the program that containers run. It prints the render nodes that it can open, including nodes
// that it creates. As a service it runs until it gets SIGTERM.
const look = `seen=
busybox mkdir -p /dev/dri
for n in $(busybox seq 128 191); do
	[ -e /dev/dri/renderD$n ] || busybox mknod /dev/dri/renderD$n c 226 $n 2>/dev/null || continue
	case $( (exec 3<>/dev/dri/renderD$n) 2>&1) in
	*"No such device"*) seen="$seen /dev/dri/renderD$n" ;;
	*"not permitted"*) ;;
	*) seen="$seen ?$n" ;;
	esac
done
[ -d /out ] || { echo $seen; exit; }
echo $seen >/out/new
busybox mv /out/new /out/seen
trap exit TERM
busybox sleep infinity &
wait
`

// quadlet is the unit from dcm-containers(7).
const quadlet = `[Container]
Image=localhost/look
AddDevice=deviceconfig.org/partition=reservation-q1
AddCapability=MKNOD
Network=none
Volume=/run/q1:/out
`

// written is the unit that Quadlet generates, for bookworm's podman, which has no Quadlet.
const written = `[Service]
Type=notify
NotifyAccess=all
Delegate=yes
KillMode=mixed
ExecStart=podman run --name=q1 --replace --rm --detach --sdnotify=conmon --cgroups=split --network=none --cap-add=MKNOD --volume=/run/q1:/out --device=deviceconfig.org/partition=reservation-q1 localhost/look
ExecStopPost=podman rm --force --ignore q1
`

// podmanHere is a configuration of podman without keys and controllers, which a container inside of the
// test's container does not have.
func podmanHere() e2e.Seed {
	return e2e.Seed{
		"/etc/containers/containers.conf": {Content: []byte("[containers]\nkeyring = false\npids_limit = 0\n[engine]\nevents_logger = \"none\"\n")},
		"/etc/containers/storage.conf":    {Content: []byte("[storage]\ndriver = \"vfs\"\nrunroot = \"/run/containers/storage\"\ngraphroot = \"/var/lib/containers/storage\"\n")},
	}
}

// containers tests which partitions containers of podman can open with the CDI names that dcm writes.
func containers(t *testing.T, p product) {
	t.Parallel()
	for _, recipe := range []e2e.Recipe{e2e.Podman("bookworm"), e2e.Podman("trixie")} {
		t.Run(recipe.Suite, func(t *testing.T) {
			t.Parallel()
			seed := driverless()
			maps.Copy(seed, podmanHere())
			seed["/root/image/look"] = e2e.File{Content: []byte(look)}
			m := installWith(t, recipe, p, seed)
			m.run(`mkdir -p /run/q1 /root/image/bin
				cp /bin/busybox /root/image/bin; ln -s busybox /root/image/bin/sh
				tar -C /root/image -c . | podman import --quiet --change 'CMD ["sh", "/look"]' - localhost/look`)
			m.t.Logf("%s", m.run("podman --version; podman info --format '{{.Host.OCIRuntime.Name}} {{.Host.CgroupManager}}'"))
			if recipe.Suite == "bookworm" {
				m.put("/etc/systemd/system/q1.service", written)
			} else {
				m.put("/etc/containers/systemd/q1.container", quadlet)
				t.Run("Quadlet of the manual", func(t *testing.T) { quadletPrinted(m.in(t)) })
			}
			for _, s := range []struct {
				name string
				run  func(machine)
			}{
				{"service confined to its reservation", quadletConfined},
				{"container with named partitions", containerNamed},
				{"reservation follows a repartition", quadletFollows},
				{"no CDI file without partitions", noCDIFile},
			} {
				t.Run(s.name, func(t *testing.T) { s.run(m.in(t)) })
			}
		})
	}
}

const reservingQ1 = `profile = "%s"

[clients]
units = ["amd-metrics-exporter", "gpuagent"]

[profiles.cpx-fast]
compute = "CPX"
memory = "NPS1"
[profiles.qpx-fast]
compute = "QPX"
memory = "NPS1"

[[reservation]]
unit = "q1"
partitions = 6
exclusive = true
`

// quadletHas waits until the service's container has printed its nodes, and checks that these are the
// nodes of the reservation.
func (m machine) quadletHas() {
	m.t.Helper()
	want := m.mine("q1")
	m.await("/run/q1/seen", "/dev/dri")
	if got := m.run("cat /run/q1/seen"); len(want) != 6 || got != strings.Join(want, " ") {
		m.t.Errorf("the service's container opens %s, want %s", got, want)
	}
}

func quadletConfined(m machine) {
	m.put(settings, fmt.Sprintf(reservingQ1, "cpx-fast"))
	m.run("systemctl restart dcm; systemctl start q1")
	m.quadletHas()
	if got := m.show("q1.service", "Slice")["Slice"]; got != "dcm-q1.slice" {
		m.t.Errorf("slice of q1: got %s", got)
	}
}

// quadletPrinted: Quadlet reads the unit that dcm-containers(7) prints.
func quadletPrinted(m machine) {
	all, err := examples.Documents("../../..")
	if err != nil {
		m.t.Fatal(err)
	}
	at := slices.IndexFunc(all, func(e examples.Example) bool { return strings.HasPrefix(e.Text, "[Container]") })
	if at < 0 {
		m.t.Fatal("dcm-containers(7) prints no Quadlet")
	}
	m.put("/root/quadlet/vllm.container", all[at].Text+"\n")
	if got := m.run("QUADLET_UNIT_DIRS=/root/quadlet /usr/libexec/podman/quadlet -dryrun"); !hasAll(got, "--device deviceconfig.org/partition=reservation-vllm", "--cgroups=split", "localhost/vllm") {
		m.t.Errorf("unit of the printed Quadlet: got %s", got)
	}
}

// contained returns the output of a container.
func (m machine) contained(options string) []string {
	m.t.Helper()
	return strings.Fields(m.run("podman run --rm --network=none --cap-add=MKNOD " + options + " localhost/look"))
}

func containerNamed(m machine) {
	p := decode[runstate.Partitions](m, "partitions.json")
	mine := m.mine("q1")
	var others []string
	for _, part := range p.Parts {
		if !slices.Contains(mine, part.Render) {
			others = append(others, part.Render)
		}
	}
	one := p.Parts[slices.IndexFunc(p.Parts, func(part runstate.Part) bool { return part.Name == "0000:26:00.0-3" })]
	const device = "--device=deviceconfig.org/partition="
	for options, want := range map[string][]string{
		"":                        nil,
		device + one.Name:         {one.Render},
		device + "all":            others,
		device + "reservation-q1": nil,
		"--privileged":            others,
	} {
		if got := m.contained(options); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
			m.t.Errorf("a container with %q opens %d: %s, want %d: %s", options, len(got), got, len(want), want)
		}
	}
	m.quadletHas()
	if strings.Contains(m.run("podman info --format '{{.Host.OCIRuntime.Name}}'"), "runc") {
		return // this podman puts each container into a new cgroup outside of the lease
	}
	// An engine creates the nodes in the container again, also in a lease.
	name := m.run("dcm run --dry-run | tail -1")
	given := p.Parts[slices.IndexFunc(p.Parts, func(part runstate.Part) bool { return part.Name == name })].Render
	for options, want := range map[string]string{device + name: given, "": given, device + "0000:26:00.0-3": ""} {
		// The cleanup process of a container also runs in the lease.
		m.until(noLeases)
		r := m.try("dcm run -- podman run --rm --network=none --cgroups=disabled --cap-add=MKNOD " + options + " localhost/look")
		if got := strings.TrimSpace(r.Stdout); got != want || (r.Code == 0) != (want != "") {
			m.t.Errorf("container in a lease of %s with %q: got exit status %d, nodes %s: %s", given, options, r.Code, got, r.Stderr)
		}
	}
}

// quadletFollows also reads the CDI file continuously: it must be complete at any moment.
func quadletFollows(m machine) {
	m.run(`rm -f /run/q1.stop; systemd-run --quiet --unit=reader sh -c 'while [ ! -e /run/q1.stop ]; do
		text=$(cat /run/cdi/dcm.json) || exit 1
		case $text in "{"*'"'\"all\"'"'*"}") ;; *) exit 2 ;; esac
	done; exec sleep infinity'`)
	for _, s := range []struct{ profile, there, gone string }{
		{"qpx-fast", "0000:05:00.0-3", "0000:05:00.0-7"}, {"cpx-fast", "0000:05:00.0-7", ""},
	} {
		before := m.units("q1.service")
		had := m.mine("q1")
		m.run("rm /run/q1/seen")
		m.put(settings, fmt.Sprintf(reservingQ1, s.profile))
		m.run("dcm apply")
		m.bounced(before)
		m.quadletHas()
		if got := m.contained("--device=deviceconfig.org/partition=" + s.there); len(got) > 1 {
			m.t.Errorf("nodes opened by a container with %s: got %s", s.there, got)
		}
		if s.gone == "" {
			continue // with more partitions the service keeps those that it has
		}
		if now := m.mine("q1"); slices.Equal(had, now) {
			m.t.Errorf("NOT tested: the new partitions have the nodes of the old ones (%s)", now)
		}
		if r := m.try("podman run --rm --network=none --device=deviceconfig.org/partition=" + s.gone + " localhost/look"); r.Code == 0 || !strings.Contains(r.Stderr, s.gone) {
			m.t.Errorf("container with the removed partition %s: want a failure, got %d, %s%s", s.gone, r.Code, r.Stdout, r.Stderr)
		}
	}
	m.run("touch /run/q1.stop; systemctl is-active reader")
	if got := m.run("ls -A /run/cdi"); got != "dcm.json" {
		m.t.Errorf("/run/cdi: want no file of dcm, got %s", got)
	}
}

func noCDIFile(m machine) {
	m.run("systemctl stop q1 reader amd-metrics-exporter gpuagent; modprobe -r amdgpu; systemctl restart dcm-reserve || :; [ ! -e /run/cdi/dcm.json ]")
	if r := m.try("podman run --rm --network=none --device=deviceconfig.org/partition=all localhost/look"); r.Code == 0 || !strings.Contains(r.Stderr, "deviceconfig.org/partition=all") {
		m.t.Errorf("container with a missing partition: want a failure, got %d, %s%s", r.Code, r.Stdout, r.Stderr)
	}
	// The daemon may have noticed the driver meanwhile, and a run updates the CDI file, too.
	m.run("modprobe amdgpu; systemctl restart dcm-reserve || :")
	m.await("/run/cdi/dcm.json", "deviceconfig.org/partition")
}
