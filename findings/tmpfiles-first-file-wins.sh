#!/bin/bash
# Guess:     of two files in tmpfiles.d with a line for the same directory, the file with the later name wins, as it
#            does in drop-ins and sysctl.d. So 90-local.conf in /etc adjusts 50-vendor.conf.
# Behaviour: the file with the first name wins. The other line is ignored with a warning, and the exit status is 0.
#            A file that adjusts another one needs an earlier name.
# Versions seen: systemd 252.39-1~deb12u2
# Met by:    administrators who restrict or open a directory that a package of a GPU vendor creates. The directory
#            keeps the mode of the package.
# Fails:     if the output is not that at the end of this script, which was seen with these versions.
set -euo pipefail
dir=$(mktemp -d)
# shellcheck source=findings/lib.bash
. "$(dirname "$0")/lib.bash"

debian_package systemd 252.39-1~deb12u2
debian_package libsystemd-shared 252.39-1~deb12u2
cat >"$dir/modes.sh" <<'END'
export LD_LIBRARY_PATH=usr/lib/x86_64-linux-gnu/systemd
for local in 90-local.conf 10-local.conf; do
	root=$PWD/$local.root
	mkdir -p "$root/etc/tmpfiles.d" "$root/usr/lib/tmpfiles.d"
	echo "d /gpu 0755" >"$root/usr/lib/tmpfiles.d/50-vendor.conf"
	echo "d /gpu 0700" >"$root/etc/tmpfiles.d/$local"
	bin/systemd-tmpfiles --root="$root" --create 2>"$root/log"
	echo "0755 in 50-vendor.conf, 0700 in $local: exit status $?, mode $(stat -c %a "$root/gpu")"
	grep -o '[^/]*conf:1: Duplicate line' "$root/log"
done
END
expect bash modes.sh <<'END' || exit 1
0755 in 50-vendor.conf, 0700 in 90-local.conf: exit status 0, mode 755
90-local.conf:1: Duplicate line
0755 in 50-vendor.conf, 0700 in 10-local.conf: exit status 0, mode 700
50-vendor.conf:1: Duplicate line
END
