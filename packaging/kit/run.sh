#!/bin/sh
# run.sh [DIRECTORY]: read the GPUs of this host, and write what they answer to an archive in
# DIRECTORY (the current one). Nothing is installed, and nothing is written to a GPU or a
# driver. Run it as root: another user reads less.
#
# Exit status: 0 the archive is written, 1 the kit cannot run, 2 the device nodes changed
# during the run (the archive is written), 3 the host has no GPU of AMD or NVIDIA.
set -u
umask 077

fail() {
	echo "run.sh: $1" >&2
	exit 1
}

here=$(cd "$(dirname "$0")" && pwd) || exit 1
to=$(cd "${1:-.}" && pwd) || fail "${1:-.}: not a directory"
dcm=$here/bin/dcm
arch=$(cat "$here/ARCH")
case $(uname -m) in
x86_64) machine=amd64 ;;
aarch64) machine=arm64 ;;
*) machine=$(uname -m) ;;
esac
[ "$machine" = "$arch" ] || fail "wrong kit (found a machine of $machine, want $arch). hint: use the kit for $machine"
"$dcm" --version >/dev/null || fail "$dcm does not run"

work=$(mktemp -d) || fail "cannot make a temporary directory"
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
mkdir "$work/result"
cd "$work/result" || exit 1

# The device nodes with type, mode, owner and numbers, without their times.
nodes() {
	for node in /dev/kfd /dev/dri/* /dev/nvidia* /dev/nvidia-caps/*; do
		[ -e "$node" ] && [ ! -d "$node" ] && ls -ln "$node"
	done | awk '{ print $1, $3, $4, $5, $6, $NF }'
}

# step FILE COMMAND...: run a command and note its exit status and duration.
step() {
	file=$1
	shift
	began=$(date +%s)
	"$@" >"$file" 2>&1 </dev/null
	status=$?
	echo "$file: exit status $status, $(($(date +%s) - began)) s" >>steps.txt
	return $status
}

[ "$(id -u)" = 0 ] || echo "run.sh: not run as root: part of the facts will be missing" >&2

nodes >nodes-before.txt
step record.txt "$dcm" record --trace record.json || fail "the record failed: $(cat record.txt)"
if ! grep -Eq '"text": "0x(1002|10de)"' record.json; then
	echo "run.sh: no GPU of AMD or NVIDIA found; nothing is written" >&2
	exit 3
fi

{
	cat "$here/VERSION"
	echo "machine: $machine, kernel $(uname -r), user id $(id -u)"
	grep -E '^(ID|VERSION_ID)=' /etc/os-release
	if [ -d /run/systemd/system ]; then echo "systemd: runs"; else echo "systemd: does not run"; fi
	for file in /sys/fs/selinux/enforce /sys/kernel/security/lsm /sys/kernel/security/lockdown; do
		[ -r "$file" ] && echo "$file: $(cat "$file")"
	done
	grep -E '^(amdgpu|amdxcp|amdkcl|nvidia[a-z_]*|nouveau|ast|drm|vfio_pci) ' /proc/modules
} >host.txt 2>/dev/null

# The checks of the sources against each other. Their archive goes into the result.
step selftest.txt "$dcm" selftest --read --archive selftest.tar.gz

# What each shipped profile would do to the recorded node. Nothing of this host is read.
plan() { "$dcm" --root "$here/config" "$@" --node "$work/result/record.json"; }
step profiles.txt plan profiles
step check.txt plan check
plan profiles 2>/dev/null | awk 'NR > 1 { print $1 }' >"$work/names"
while read -r name; do
	step "plan-$name.txt" plan plan "$name"
done <"$work/names"

nodes >nodes-after.txt
changed=0
cmp -s nodes-before.txt nodes-after.txt || changed=2

archive=$to/dcm-hardware-kit-$(date -u +%Y%m%dT%H%M%S).tar.gz
"$here/libexec/dcm/dcm-kit" "$work/result" "$archive" || fail "cannot write the archive"
echo "The result is $archive. Read its CONTENTS.txt, and send it to $(cat "$here/CONTACT")."
if [ "$changed" != 0 ]; then
	echo "run.sh: the device nodes changed during the run: see nodes-before.txt and nodes-after.txt in the result" >&2
fi
exit $changed
