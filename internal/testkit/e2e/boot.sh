# Runs in a mount namespace of its own, so that nothing is left mounted whatever
# happens: tmpfs takes what the container writes, overlayfs lays it over the seed
# (the test's own files) and the cached root. systemd-nspawn exits with 133 when
# the container asked for a reboot.
# usage: boot.sh WORK SEED ROOT NSPAWN-ARGUMENT...
set -eu
work=$1 seed=$2 root=$3
shift 3
mount -t tmpfs -o mode=0755 tmpfs "$work"
mkdir "$work/upper" "$work/work" "$work/root"
mount -t overlay -o "lowerdir=$seed:$root,upperdir=$work/upper,workdir=$work/work" overlay "$work/root"
while :; do
	code=0
	systemd-nspawn --directory="$work/root" "$@" || code=$?
	[ "$code" = 133 ] || exit "$code"
done
