package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/e2e"
)

// hostPackage is an RPM with the names that dcm's package requires, since rpm does not see the packages of
// Debian.
const hostPackage = `name: host
arch: noarch
version: 1.0.0
maintainer: test <test@example.org>
description: what Debian's packages provide
provides: ["systemd = 257", dbus, kmod, glibc, /bin/sh, coreutils, grep]
`

// enterprise makes Ansible and dnf treat the node as one of the Red Hat family.
const enterprise = `rm -f /etc/os-release /etc/debian_version
printf 'NAME="Rocky Linux"\nID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.5"\n' >/etc/os-release
echo 'Rocky Linux release 9.5 (Blue Onyx)' >/etc/redhat-release`

// signer creates a key, imports it, and signs the package for a repository and as a file.
const signer = `cd /root && mkdir -p repo && cp play/dcm.rpm repo/dcm.rpm && mv host.rpm repo
gpg --batch --quiet --passphrase '' --quick-generate-key 'test <test@example.org>' rsa3072 sign never
gpg --armor --export test@example.org >key.asc && rpm --import key.asc
rpmsign --define '_gpg_name test@example.org' --addsign repo/dcm.rpm repo/host.rpm && createrepo_c --quiet repo
printf '[local]\nname=local\nbaseurl=file:///root/repo\ngpgcheck=1\ngpgkey=file:///root/key.asc\n' >/etc/yum.repos.d/local.repo
dnf --quiet --assumeyes install host`

// TestAnsibleRPM runs the role on a host with dnf. The programs dnf and rpm are those of Debian, on a node that
// reports an Enterprise Linux.
func TestAnsibleRPM(t *testing.T) {
	packages, seed := ansibleNode(t)
	seed["/root/play/dcm.rpm"] = e2e.File{Content: only(t, packages+"/dcm-*.x86_64.rpm")}
	seed["/root/host.rpm"] = e2e.File{Content: packaged(t, hostPackage)}
	m := boot(t, e2e.DNF(), build(t, "./agent"), seed)
	m.run(enterprise)
	m.run("mkdir -p /etc/yum.repos.d; " + signer)
	m.t.Log(m.run("dnf --version | head -1; rpm --version; ansible -i /root/play/hosts gpu -m setup -a filter=ansible_pkg_mgr,ansible_os_family"))

	const file = "-e dcm_package=dcm.rpm "
	m.rejected("", "cannot be installed here (found dnf, want apt)")
	m.rejected(file, "dcm")
	m.changes(file+"-e dcm_gpg_check=false --check", "1")
	m.lacksDCM()
	m.appliedByRole(file + "-e dcm_gpg_check=false")

	m.run("cp /root/repo/dcm.rpm /root/play/signed.rpm")
	m.uninstalled()
	m.appliedByRole("-e dcm_package=signed.rpm ")
	m.uninstalled()
	m.appliedByRole("-e dcm_package=dcm ")
}

// packaged builds an RPM from a recipe of nfpm.
func packaged(t *testing.T, recipe string) []byte {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "nfpm.yaml"), []byte(recipe), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "tool", "-modfile=packaging/tools/go.mod", "nfpm", "package", "-f", filepath.Join(dir, "nfpm.yaml"), "-p", "rpm", "-t", dir)
	cmd.Dir = "../../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("nfpm: %v\n%s", err, out)
	}
	return only(t, dir+"/*.rpm")
}

// rejected expects the play to fail with a text, without an installation.
func (m machine) rejected(arguments, want string) {
	m.t.Helper()
	text, _, failed := m.played(arguments)
	if failed != "1" || !strings.Contains(text, want) {
		m.t.Errorf("%s: failed %s, want 1 and %q:\n%s", arguments, failed, want, text)
	}
	m.t.Log(text)
	m.lacksDCM()
}

func (m machine) lacksDCM() {
	m.t.Helper()
	if r := m.try("[ -e /usr/bin/dcm ] || rpm -q dcm"); r.Code == 0 {
		m.t.Errorf("dcm is installed: %s", r.Stdout)
	}
}

// appliedByRole installs dcm and applies the profile. A second run changes nothing.
func (m machine) appliedByRole(arguments string) {
	m.t.Helper()
	if text, _, failed := m.played(arguments); failed != "0" {
		m.t.Fatal(text)
	}
	m.run("rpm --verify dcm || [ \"$(rpm --verify dcm)\" = \"$(rpm --verify dcm | grep ' g ')\" ]; systemctl is-enabled dcm dcm-apply")
	m.has(partition.Mode{Compute: partition.CPX, Memory: "NPS1"})
	m.changes(arguments, "0")
	m.changes(arguments+" --check", "0")
}

// uninstalled removes the package by the role. The configuration stays.
func (m machine) uninstalled() {
	m.t.Helper()
	for _, want := range []string{"1", "0"} {
		m.changes("-e dcm_state=absent", want)
	}
	m.lacksDCM()
	m.t.Log(m.run("ls /etc/dcm"))
}
