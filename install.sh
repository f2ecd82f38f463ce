#!/bin/sh
# Installs dcm from this source tree, or shows or tests it in containers.
set -eu
cd "$(dirname "$0")"

usage() {
	cat <<'END'
usage: ./install.sh [--uninstall | --demo | --test | --help]

  (nothing)    build the package, install it on this host, enable its units
  --uninstall  remove the package; the configuration in /etc/dcm stays
  --demo       walk through the whole flow in a container: a real systemd, the
               real package, a simulated node of eight MI300X
  --test       run all checks and tests, those in containers too

Needs root, Go 1.26 or later in PATH or /usr/local/go/bin, and a distribution of
the Debian or the Fedora family. What else is needed is installed from the
distribution; it is named first. Nothing is asked.
END
}

die() {
	echo "install.sh: $*" >&2
	exit 1
}

# family says which package manager this host has.
family() {
	if command -v apt-get >/dev/null && command -v dpkg >/dev/null; then
		echo debian
	elif command -v dnf >/dev/null; then
		echo fedora
	else
		die "this host has neither apt-get nor dnf; build with 'make packages' and install what is in dist/"
	fi
}

installed() {
	case $1 in
	debian) dpkg-query --show --showformat='${db:Status-Status}\n' "$2" 2>/dev/null | grep -qx installed ;;
	fedora) rpm --query --whatprovides "$2" >/dev/null 2>&1 ;;
	esac
}

# need installs those of the distribution's packages that are not there.
need() {
	kind=$1
	shift
	missing=
	for package in "$@"; do
		installed "$kind" "$package" || missing="$missing $package"
	done
	[ -n "$missing" ] || return 0
	echo "install.sh: installing from the distribution:$missing"
	# One word a package is meant.
	# shellcheck disable=SC2086
	case $kind in
	debian)
		export DEBIAN_FRONTEND=noninteractive
		apt-get update -qq
		apt-get install -qq -y --no-install-recommends $missing </dev/null
		;;
	fedora) dnf install -y --setopt=install_weak_deps=False $missing </dev/null ;;
	esac
}

# What --demo and --test run containers with.
containers() {
	case $1 in
	debian) echo make git systemd-container mmdebstrap debian-archive-keyring fuse3 ;;
	fedora) echo make git systemd-container mmdebstrap debian-keyring fuse3 ;;
	esac
}

# What --test checks and compiles with besides. Fedora has no lintian.
checkers() {
	case $1 in
	debian) echo gcc libc6-dev shellcheck lintian rpm rpmlint ;;
	fedora) echo gcc glibc-devel ShellCheck rpm rpmlint ;;
	esac
}

find_go() {
	command -v go >/dev/null || PATH=$PATH:/usr/local/go/bin
	command -v go >/dev/null || die "no go in PATH or /usr/local/go/bin: install Go 1.26 or later, see https://go.dev/doc/install"
	export PATH
}

host_install() {
	find_go
	need "$1" make
	arch=$(go env GOARCH)
	make packages "ARCHES=$arch"
	case $1 in
	debian) apt-get install -y --reinstall --allow-downgrades ./dist/*.deb </dev/null ;;
	fedora) dnf install -y ./dist/*.rpm </dev/null ;;
	esac
	# The packages enable their units as the host's presets say; this was asked for.
	systemctl enable dcm-apply.service dcm.service
	systemctl start dcm.service
	cat <<'END'

dcm is installed and runs. It leaves the GPUs alone until a profile is selected:

  dcm gpus                  the GPUs of this host and what they have now
  dcm profiles              the profiles to choose from
  dcm plan cpx-nps4         what a profile would change, and which services restart
  dcm use cpx-nps4          select it, now and at every boot
  dcm status                how it went

Name the services that use the GPUs in /etc/dcm/dcm.toml; they are stopped and
started around every change. Or import the Kubernetes configuration:

  dcm import config.json >/etc/dcm/dcm.toml.d/10-kubernetes.toml
END
}

uninstall() {
	case $1 in
	debian) apt-get remove -y dcm </dev/null ;;
	fedora) dnf remove -y dcm </dev/null ;;
	esac
}

action=${1-install}
[ $# -le 1 ] || { usage >&2; exit 64; }
case $action in
install | --uninstall | --demo | --test) ;;
-h | --help) usage; exit ;;
*) usage >&2; exit 64 ;;
esac

[ "$(id -u)" = 0 ] || die "this needs root: run 'sudo ./install.sh${1:+ $1}'"
host=$(family)
case $action in
install) host_install "$host" ;;
--uninstall) uninstall "$host" ;;
--demo)
	find_go
	# shellcheck disable=SC2046 # one word a package
	need "$host" $(containers "$host")
	make demo "ARCHES=$(go env GOARCH)"
	;;
--test)
	find_go
	# shellcheck disable=SC2046 # one word a package
	need "$host" $(containers "$host") $(checkers "$host")
	make lint
	make test
	;;
esac
