#!/bin/bash
# Guess:     7.1.0-rc3 is older than 7.1.0, as in semantic versions. So a unit with
#            ConditionKernelVersion=>=7.1.0 does not start on a release candidate of that kernel.
# Behaviour: systemd counts the text after a dash as more, so each release candidate is newer than the
#            release. Only a tilde makes a version older, and no kernel's name has one.
# Versions seen: systemd 252.39-1~deb12u2
# Met by:    authors of units, and of checks with systemd-analyze, that ask for a kernel with a new property
#            of its GPU driver. They hold on candidates that do not have it yet.
# Fails:     if the output is not that at the end of this script, which was seen with this version.
set -euo pipefail
dir=$(mktemp -d)
# shellcheck source=findings/lib.bash
. "$(dirname "$0")/lib.bash"

debian_package systemd 252.39-1~deb12u2
debian_package libsystemd-shared 252.39-1~deb12u2
cat >"$dir/compare.sh" <<'END'
export LD_LIBRARY_PATH=usr/lib/x86_64-linux-gnu/systemd
for version in 7.0.9 7.1.0-rc3 7.1.0~rc3 7.1.0-amd64; do
	usr/bin/systemd-analyze compare-versions $version 7.1.0 || true
done
END
expect bash compare.sh <<'END' || exit 1
7.0.9 < 7.1.0
7.1.0-rc3 > 7.1.0
7.1.0~rc3 < 7.1.0
7.1.0-amd64 > 7.1.0
END
