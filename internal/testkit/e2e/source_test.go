package e2e_test

import (
	"os"
	"strings"
	"testing"

	"dcm/internal/testkit/e2e"
)

// compilers are the programs that install.sh finds: an old Go in PATH, a newer one elsewhere, and a make
// that copies the packages of the test.
const compilers = `set -e
mkdir -p /tmp/make/DEBIAN /tmp/make/usr/bin /usr/local/go/bin
printf 'Package: make\nVersion: 9\nArchitecture: all\nMaintainer: a <a@a.example>\nDescription: none\n' >/tmp/make/DEBIAN/control
printf '#!/bin/sh\ngo version\n' >/tmp/make/usr/bin/make
printf '#!/bin/sh\necho go version go1.19.8 linux/amd64\n' >/usr/local/bin/go
printf '#!/bin/sh\necho go version go1.30 linux/amd64\n' >/usr/local/go/bin/go
chmod 0755 /tmp/make/usr/bin/make /usr/local/bin/go /usr/local/go/bin/go
dpkg-deb --build /tmp/make /tmp/make.deb
dpkg --install /tmp/make.deb
chmod 0755 /root/dcm/install.sh`

// fromSource runs install.sh on a host, with the package that make would build, and then with a newer one.
func fromSource(t *testing.T, p product, newer string) {
	seed, err := e2e.Node("mi300x-8", p.sim)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"install.sh", "go.mod"} {
		content, err := os.ReadFile("../../../" + file)
		if err != nil {
			t.Fatal(err)
		}
		seed["/root/dcm/"+file] = e2e.File{Content: content}
	}
	m := boot(t, e2e.Trixie(), p.agent, seed)
	m.run(compilers)
	install := func(packages string) string {
		m.put("/root/dcm/dist/dcm_0_amd64.deb", string(only(t, packages+"/*_amd64.deb")))
		return m.run("/root/dcm/install.sh 2>&1")
	}
	if said := install(p.packages); !strings.Contains(said, "leaves the GPUs alone") || !strings.Contains(said, "go1.30") {
		t.Errorf("install.sh: want the idle state and the version of Go, got %s", said)
	}
	m.run("systemctl is-enabled dcm dcm-apply && systemctl is-active dcm")

	m.ready()
	before := m.units(exporter, agentUnit, dashboard)
	m.run("systemctl disable dcm-apply")
	said := install(newer)
	if strings.Contains(said, "leaves the GPUs alone") || !strings.Contains(said, "cpx-fast") || !strings.Contains(said, "dcm-apply.service is disabled and stays so") {
		t.Errorf("second install.sh: want the profile and the disabled unit, got %s", said)
	}
	if got := m.try("systemctl is-enabled dcm dcm-apply").Stdout; got != "enabled\ndisabled\n" {
		t.Errorf("units: want enabled and disabled, got %q", got)
	}
	m.untouched(before)

	m.removed("/root/dcm/install.sh --uninstall")
	m.run("test -e /etc/dcm/dcm.toml && ! test -e /usr/bin/dcm")
	if said := m.run("/root/dcm/install.sh --uninstall"); !strings.Contains(said, "dcm is not installed") {
		t.Errorf("second --uninstall: want the message that dcm is not installed, got %s", said)
	}
}
