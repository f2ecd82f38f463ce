#!/bin/bash
# Guess:     in a file of environment.d, a # after a value begins a comment, as in a shell, which the format resembles.
# Behaviour: a comment needs a line of its own. Otherwise the value contains # and the rest of the line.
# Versions seen: systemd 252.39-1~deb12u2
# Met by:    administrators who limit the services of a user to some GPUs, and note the reason next to the value. The
#            runtime gets a list of GPUs whose last entry is no number.
# Fails:     if the output is not that at the end of this script, which was seen with these versions.
set -euo pipefail
dir=$(mktemp -d)
# shellcheck source=findings/lib.bash
. "$(dirname "$0")/lib.bash"

debian_package systemd 252.39-1~deb12u2
debian_package libsystemd-shared 252.39-1~deb12u2
mkdir -p "$dir/home/environment.d"
cat >"$dir/home/environment.d/gpu.conf" <<'END'
# the first two
FINDING_ONE=0,1
FINDING_TWO=0,1 # the first two
END
cat >"$dir/environment.sh" <<'END'
export LD_LIBRARY_PATH=usr/lib/x86_64-linux-gnu/systemd XDG_CONFIG_HOME=$PWD/home
generator=usr/lib/systemd/user-environment-generators/30-systemd-environment-d-generator
echo "environment.d: $($generator | grep FINDING_TWO)"
echo "environment.d: $($generator | grep FINDING_ONE)"
. home/environment.d/gpu.conf
echo "shell: FINDING_TWO=$FINDING_TWO"
END
expect bash environment.sh <<'END' || exit 1
environment.d: FINDING_TWO="0,1 # the first two"
environment.d: FINDING_ONE=0,1
shell: FINDING_TWO=0,1
END
