#!/bin/bash
# Guess:     "m vllm render" in sysusers.d adds the user vllm to the group render, and does nothing on a host
#            without that user.
# Behaviour: systemd-sysusers creates what is missing: the group, and a system user with that name and a group of
#            its own.
# Versions seen: systemd 252.39-1~deb12u2
# Met by:    administrators who give users access to GPUs on all hosts with one file. On hosts whose users come
#            from LDAP later, or have another name, a local system account takes the name, and its id owns the files.
# Fails:     if the output is not that at the end of this script, which was seen with these versions.
set -euo pipefail
dir=$(mktemp -d)
# shellcheck source=findings/lib.bash
. "$(dirname "$0")/lib.bash"

debian_package systemd 252.39-1~deb12u2
debian_package libsystemd-shared 252.39-1~deb12u2
mkdir -p "$dir/host/etc"
echo "root:x:0:0::/root:/bin/sh" >"$dir/host/etc/passwd"
echo "root:x:0:" >"$dir/host/etc/group"
echo "m vllm render" >"$dir/host/gpu.conf"
cat >"$dir/members.sh" <<'END'
export LD_LIBRARY_PATH=usr/lib/x86_64-linux-gnu/systemd
bin/systemd-sysusers --root="$PWD/host" "$PWD/host/gpu.conf" 2>/dev/null
echo "exit status $?"
cut -d: -f1,7 host/etc/passwd
cut -d: -f1,4 host/etc/group
END
expect bash members.sh <<'END' || exit 1
exit status 0
root:/bin/sh
vllm:/usr/sbin/nologin
root:
render:vllm
vllm:
END
