#!/bin/sh
# Installs dcm from this source tree, or demonstrates or tests it in containers.
set -eu
cd "$(dirname "$0")"

usage() {
	cat <<'END'
usage: ./install.sh [--uninstall | --demo [--keep] | --test | --help]

  (no option)  build the package, install it on this host, enable its units
  --uninstall  remove the package; the configuration in /etc/dcm is kept
  --demo       show dcm in a container: a change, a job in the way, kill -9,
               leases and a reboot, with a real systemd, the real package and
               a simulated node of eight MI300X
  --keep       with --demo: then open a shell on the simulated node
  --test       run all checks and tests, also those in containers

Requires root, Go 1.26 or later, and a Debian- or Fedora-based distribution.
Missing packages are listed and installed from the distribution. There is no
prompt. The built files belong to the user who called sudo.
END
}

say() { echo "install.sh: $*"; }

die() {
	say "$*" >&2
	exit 1
}

# family prints the family of the distribution. The tools are checked last, since a
# distribution may have those of the other family.
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

# need installs the missing ones of these packages of the distribution.
need() {
	kind=$1
	shift
	missing=
	for package in "$@"; do
		installed "$kind" "$package" || missing="$missing $package"
	done
	[ -n "$missing" ] || return 0
	say "installing from the distribution:$missing"
	# Each word is a package.
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

# containers prints the packages that --demo and --test need for containers.
containers() {
	case $1 in
	debian) echo make git systemd-container mmdebstrap debian-archive-keyring fuse3 ;;
	fedora) echo make git systemd-container mmdebstrap debian-keyring fuse3 ;;
	esac
}

# checkers prints the packages that only --test needs. Fedora has no lintian.
checkers() {
	case $1 in
	debian) echo gcc libc6-dev shellcheck lintian rpm rpmlint ;;
	fedora) echo gcc glibc-devel ShellCheck rpm rpmlint ;;
	esac
}

# at_least reports whether version $1 is $2 or later.
at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]; }

# places prints the directories in which Go may be installed. sudo sets its own PATH, in
# which an older Go of the distribution may come first.
places() {
	echo "$PATH" | tr : '\n'
	home=$(getent passwd "${SUDO_UID:-0}" | cut -d: -f6)
	# shellcheck disable=SC2231 # the globs are intended
	for place in ${GO_PLACES:-/usr/local/go/bin /usr/lib/go-*/bin /usr/lib/golang/bin /snap/bin "$home"/sdk/go*/bin "$home"/go/bin "$home"/.local/go/bin}; do
		echo "$place"
	done
}

go_version() { GOTOOLCHAIN=$2 "$1/go" version 2>/dev/null | sed -n 's/^go version go\([0-9][^ ]*\).*/\1/p'; }

# find_go puts the newest Go first in PATH. Go 1.21 and later download the version that
# go.mod requires.
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
	[ -n "$best" ] || die "no Go found in PATH or /usr/local/go/bin: install Go $wanted or later, see https://go.dev/doc/install"
	if ! at_least "$best" "$wanted"; then
		fetched=$(go_version "$at" auto)
		if [ -z "$fetched" ] || ! at_least "$fetched" "$wanted"; then
			die "the newest Go found is $best in $at, and dcm needs $wanted: see https://go.dev/doc/install"
		fi
	fi
	PATH=$at:$PATH
	export PATH
}

# as_caller runs a command as the user who called sudo, so that built and cached files
# belong to that user. If that user cannot write to the tree, it runs it as root.
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

# as_root runs a command with root's own caches, since sudo may keep the caller's.
as_root() {
	if [ "${SUDO_UID:-0}" = 0 ]; then
		"$@"
	else
		env -u GOCACHE -u GOMODCACHE -u GOPATH -u GOBIN HOME="$(getent passwd 0 | cut -d: -f6)" "$@"
	fi
}

step=0

# stage runs a command as the next of $steps steps. Every 10 seconds it prints the step and
# its time.
stage() {
	step=$((step + 1))
	what="step $step of $steps: $1" began=$(date +%s)
	say "$what"
	shift
	(
		trap 'kill $!; exit' TERM
		while sleep 10 & wait $! && kill -0 $$ 2>/dev/null; do
			say "$what: $(($(date +%s) - began)) s so far"
		done
	) &
	beat=$!
	code=0
	"$@" || code=$?
	kill "$beat" 2>/dev/null || :
	processor_time
	say "$what: $(($(date +%s) - began)) s; processor time of all steps: $used s"
	[ "$code" = 0 ] || exit "$code"
}

# processor_time sets $used to the seconds of processor time of the commands that have ended. times
# reports nothing in a subshell.
processor_time() {
	file=$(mktemp)
	times >"$file"
	used=$(awk 'NR == 2 { for (i = 1; i <= 2; i++) { split($i, t, "m"); s += 60 * t[1] + t[2] } printf "%d", s }' "$file")
	rm -f "$file"
}

units="dcm-apply.service dcm.service"

# known reports whether this host has dcm's units, or Debian still has their state.
known() {
	case $1 in
	debian) dpkg-query --show dcm >/dev/null 2>&1 ;;
	fedora) rpm --query dcm >/dev/null 2>&1 ;;
	esac
}

# put installs the built package and replaces any other build.
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
		# The package follows the presets of the host; the administrator requested this.
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
	result
}

# result prints the next steps or, if a profile is selected, the status.
result() {
	status=$(dcm status 2>&1) || :
	if echo "$status" | grep -q 'No profile is selected'; then
		cat <<'END'

dcm is installed. It leaves the GPUs alone until a profile is selected:

  dcm gpus                  the GPUs of this host and their modes
  dcm profiles              the profiles to choose from
  dcm check                 the configuration, and known causes of failure on this host
  dcm support selftest --read
                            test whether dcm reads these GPUs correctly
  dcm plan cpx-nps4         what a profile would change, and which services restart
  dcm use cpx-nps4          select it, now and at every boot
  dcm status                the result

List the services that use the GPUs in /etc/dcm/dcm.toml; they are stopped and
started around every change. Or import the Kubernetes configuration:

  dcm import config.json >/etc/dcm/dcm.toml.d/10-kubernetes.toml

END
	else
		printf '\ndcm is installed. Its status:\n\n%s\n\n' "$status"
	fi
	# The counts of the host checks. dcm check prints the findings too.
	dcm check 2>/dev/null | grep '^Host checks: ' || :
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
	steps=5
	# shellcheck disable=SC2046 # each word is a package
	stage "installing packages" need "$1" $(containers "$1") $(checkers "$1")
	stage "compiling the tests" as_caller make bin/summary bin/roots
	# Each root takes about a minute, mostly of waiting, so the checks run concurrently.
	bin/roots &
	roots=$!
	trap 'kill $roots 2>/dev/null || :' EXIT
	stage "checking the source and building the packages" as_caller make --jobs=2 --output-sync=target lint-source product
	stage "checking the packages" as_caller make lint-packed DIST=dist/product/0.1.0
	say "step 5 of $steps: testing (make test)"
	code=0
	as_root make test || code=$?
	processor_time
	say "processor time of all steps: $used s"
	cache=${DCM_TEST_CACHE:-/var/cache/dcm-test}
	say "kept for the next run: $(du -sh "$cache" | cut -f 1) in $cache; 'make clean' removes it"
	say "total time: $((($(date +%s) - began_all) / 60)) minutes"
	exit "$code"
}

action=${1-install}
case "$*" in
'' | --uninstall | --demo | '--demo --keep' | --test) ;;
-h | --help) usage; exit ;;
*) usage >&2; exit 64 ;;
esac

[ "$(id -u)" = 0 ] || die "this needs root: run 'sudo ./install.sh${1:+ $*}'"
host=$(family)
case $action in
install) host_install "$host" ;;
--uninstall) uninstall "$host" ;;
--demo)
	find_go
	steps=3
	# shellcheck disable=SC2046 # each word is a package
	stage "installing packages" need "$host" $(containers "$host")
	stage "compiling and packing dcm" as_caller make --silent demo-package bin/demo
	say "step 3 of $steps: demo"
	as_root bin/demo -dist dist/demo ${2:+"-keep"}
	;;
--test)
	find_go
	run_tests "$host"
	;;
esac
