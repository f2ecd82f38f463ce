#!/bin/bash
# Guess:     ConditionPathExists=/dev/kfd with ConditionPathExists=|/dev/nvidiactl starts a unit on hosts with
#            one of both, since | is "or".
# Behaviour: all conditions without | must be true, and in addition one of those with |. A single | has no effect:
#            both files must exist. "or" needs | at each of them.
# Versions seen: systemd 252.39-1~deb12u2
# Met by:    authors of units for hosts of two vendors. The unit is skipped on each of them, which is no failure:
#            systemctl start succeeds.
# Fails:     if the output is not that at the end of this script, which was seen with these versions.
set -euo pipefail
dir=$(mktemp -d)
# shellcheck source=findings/lib.bash
. "$(dirname "$0")/lib.bash"

debian_package systemd 252.39-1~deb12u2
debian_package libsystemd-shared 252.39-1~deb12u2
touch "$dir/here"
cat >"$dir/conditions.sh" <<'END'
export LD_LIBRARY_PATH=usr/lib/x86_64-linux-gnu/systemd
there=$PWD/here missing=$PWD/missing
for pair in "$missing |$there" "$there |$missing" "|$missing |$there"; do
	set -- $pair
	result=$(usr/bin/systemd-analyze condition "ConditionPathExists=$1" "ConditionPathExists=$2" 2>&1 | tail -1)
	echo "${1/"$PWD/"} and ${2/"$PWD/"}: $result"
done
END
expect bash conditions.sh <<'END' || exit 1
missing and |here: Conditions failed.
here and |missing: Conditions failed.
|missing and |here: Conditions succeeded.
END
