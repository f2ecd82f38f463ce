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

Needs root, Go 1.26 or later, and a distribution of the Debian or the Fedora
family. What else is needed is installed from the distribution; it is named
first. Nothing is asked. What is built belongs to who called sudo.
END
}

say() { echo "install.sh: $*"; }

die() {
	say "$*" >&2
	exit 1
}

# family says how packages are installed on this host: as its distribution does, which
# may have the other family's tools too.
family() {
	ID='' ID_LIKE=''
	# shellcheck disable=SC1090 # as os-release(5) asks
	[ ! -r "${OS_RELEASE:=/etc/os-release}" ] || . "$OS_RELEASE"
	for id in $ID $ID_LIKE; do
		case $id in
		debian | ubuntu) echo debian; return ;;
		fedora | rhel | centos) echo fedora; return ;;
		esac
	done
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
	say "installing from the distribution:$missing"
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

# at_least tells whether a version is another one or later.
at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]; }

# places are the directories in which a Go may be: sudo has a PATH of its own, and an
# older one of the distribution may come first in it.
places() {
	echo "$PATH" | tr : '\n'
	home=$(getent passwd "${SUDO_UID:-0}" | cut -d: -f6)
	# shellcheck disable=SC2231 # globs are meant
	for place in ${GO_PLACES:-/usr/local/go/bin /usr/lib/go-*/bin /usr/lib/golang/bin /snap/bin "$home"/sdk/go*/bin "$home"/go/bin "$home"/.local/go/bin}; do
		echo "$place"
	done
}

go_version() { GOTOOLCHAIN=$2 "$1/go" version 2>/dev/null | sed -n 's/^go version go\([0-9][^ ]*\).*/\1/p'; }

# find_go puts the newest Go first in PATH. From 1.21 on one fetches the one that go.mod
# asks for.
find_go() {
	wanted=$(sed -n 's/^go //p' go.mod)
	best='' at=''
	for place in $(places); do
		[ -x "$place/go" ] || continue
		version=$(go_version "$place" local)
		if [ -n "$version" ] && { [ -z "$best" ] || { ! at_least "$best" "$version"; }; }; then
			best=$version at=$place
		fi
	done
	[ -n "$best" ] || die "no Go found, in PATH or /usr/local/go/bin: install Go $wanted or later, see https://go.dev/doc/install"
	if ! at_least "$best" "$wanted"; then
		fetched=$(go_version "$at" auto)
		if [ -z "$fetched" ] || ! at_least "$fetched" "$wanted"; then
			die "the newest Go found is $best in $at, and dcm needs $wanted: see https://go.dev/doc/install"
		fi
	fi
	PATH=$at:$PATH
	export PATH
}

# as_caller runs a command as who called sudo, so that what is built and cached is
# theirs: where the tree is theirs to write to.
as_caller() {
	if [ "${SUDO_UID:-0}" = 0 ] || ! drop test -w .; then
		"$@"
	else
		drop "$@"
	fi
}

drop() {
	setpriv --reuid="$SUDO_UID" --regid="$SUDO_GID" --init-groups \
		env HOME="$(getent passwd "$SUDO_UID" | cut -d: -f6)" USER="$SUDO_USER" LOGNAME="$SUDO_USER" "$@"
}

# as_root has root's own caches used, where sudo has left the caller's in place.
as_root() {
	if [ "${SUDO_UID:-0}" = 0 ]; then
		"$@"
	else
		env -u GOCACHE -u GOMODCACHE -u GOPATH -u GOBIN HOME="$(getent passwd 0 | cut -d: -f6)" "$@"
	fi
}

# stage runs a command and tells every 15 seconds that it does.
stage() {
	say "$1"
	what=$1 began=$(date +%s)
	shift
	(
		trap 'kill $!; exit' TERM
		while sleep 15 & wait $! && kill -0 $$ 2>/dev/null; do
			say "$what: $(($(date +%s) - began)) s so far"
		done
	) &
	beat=$!
	code=0
	"$@" || code=$?
	kill "$beat" 2>/dev/null || :
	[ "$code" = 0 ] || exit "$code"
}

units="dcm-apply.service dcm.service"

# known tells whether this host has dcm's units, or Debian remembers what they were.
known() {
	case $1 in
	debian) dpkg-query --show dcm >/dev/null 2>&1 ;;
	fedora) rpm --query dcm >/dev/null 2>&1 ;;
	esac
}

# put installs the package that was built, in the place of any other build.
put() {
	case $1 in
	debian) apt-get install -y --reinstall --allow-downgrades ./dist/dcm_*.deb </dev/null ;;
	fedora)
		file=$(ls ./dist/dcm-*.rpm)
		built=$(rpm --query --package --queryformat '%{EVR}' "$file")
		if [ "$(rpm --query --queryformat '%{EVR}' dcm)" = "$built" ]; then
			dnf reinstall -y "$file" </dev/null
		else
			dnf install -y "$file" </dev/null
			[ "$(rpm --query --queryformat '%{EVR}' dcm)" = "$built" ] || dnf downgrade -y "$file" </dev/null
		fi
		;;
	esac
}

host_install() {
	find_go
	need "$1" make
	case $1 in
	debian) packager=deb ;;
	fedora) packager=rpm ;;
	esac
	as_caller make packages "ARCHES=$(go env GOARCH)" "PACKAGERS=$packager"
	fresh=yes
	! known "$1" || fresh=
	put "$1"
	for unit in $units; do
		is=$(systemctl is-enabled "$unit" 2>/dev/null || :)
		case $is,$fresh in
		enabled,*) ;;
		# The package goes by the host's presets; this was asked for.
		disabled,yes) systemctl enable "$unit" ;;
		*) say "$unit is ${is:-not known} and stays so" ;;
		esac
	done
	if [ ! -d "${RUNS_SYSTEMD:-/run/systemd/system}" ]; then
		say "systemd does not run here, so nothing was started"
		return
	fi
	if [ -n "$fresh" ]; then
		systemctl start dcm.service || { dcm status || :; die "dcm is installed, but it did not start"; }
	fi
	told
}

# told ends with what there is to do next, or with what is so.
told() {
	status=$(dcm status 2>&1) || :
	if echo "$status" | grep -q 'No profile is selected'; then
		cat <<'END'

dcm is installed. It leaves the GPUs alone until a profile is selected:

  dcm gpus                  the GPUs of this host and what they have now
  dcm profiles              the profiles to choose from
  dcm plan cpx-nps4         what a profile would change, and which services restart
  dcm use cpx-nps4          select it, now and at every boot
  dcm status                how it went

Name the services that use the GPUs in /etc/dcm/dcm.toml; they are stopped and
started around every change. Or import the Kubernetes configuration:

  dcm import config.json >/etc/dcm/dcm.toml.d/10-kubernetes.toml
END
		return
	fi
	printf '\ndcm is installed, and this is so:\n\n%s\n' "$status"
}

uninstall() {
	installed "$1" dcm || { say "dcm is not installed"; return; }
	case $1 in
	debian) apt-get remove -y dcm </dev/null ;;
	fedora) dnf remove -y dcm </dev/null ;;
	esac
}

run_tests() {
	began_all=$(date +%s)
	# shellcheck disable=SC2046 # one word a package
	stage "preparing" need "$1" $(containers "$1") $(checkers "$1")
	stage "building the tests" as_caller make bin/summary bin/roots
	# The roots take a minute each, mostly of waiting: meanwhile the checks are run.
	bin/roots &
	roots=$!
	trap 'kill $roots 2>/dev/null || :' EXIT
	stage "checking" as_caller make lint
	code=0
	as_root make test || code=$?
	cache=${DCM_TEST_CACHE:-/var/cache/dcm-test}
	say "kept for the next run: $(du -sh "$cache" | cut -f 1) in $cache, which 'make clean' removes"
	say "$((($(date +%s) - began_all) / 60)) minutes in all"
	exit "$code"
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
	as_caller make packages bin/demo "ARCHES=$(go env GOARCH)" PACKAGERS=deb
	as_root bin/demo
	;;
--test)
	find_go
	run_tests "$host"
	;;
esac
