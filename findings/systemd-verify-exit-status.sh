#!/bin/bash
# Guess:     systemd-analyze verify fails for a unit with a misspelt key or an invalid value, as it
#            does for a unit that starts nothing. So it can check units in a pipeline by its exit
#            status.
# Behaviour: it prints that systemd ignores the line, and exits with 0. For an invalid time it does
#            not name the key either. The exit status is 1 if systemd would refuse to load the unit.
# Versions seen: systemd 252.39-1~deb12u2
# Met by:    authors of units that depend on a driver: with PartOff= the service keeps running
#            while the unit that it belongs to restarts.
# Fails:     if the output is not that at the end of this script, which was seen with these versions.
set -euo pipefail
dir=$(mktemp -d)
# shellcheck source=findings/lib.bash
. "$(dirname "$0")/lib.bash"

debian_package systemd 252.39-1~deb12u2
debian_package libsystemd-shared 252.39-1~deb12u2
cat >"$dir/misspelt.service" <<'END'
[Unit]
PartOff=driver.service
[Service]
ExecStart=/bin/true
RuntimeMaxSec=soon
END
cat >"$dir/empty.service" <<'END'
[Service]
RuntimeMaxSec=5s
END
cat >"$dir/check.sh" <<'END'
export LD_LIBRARY_PATH=usr/lib/x86_64-linux-gnu/systemd
for unit in misspelt empty; do
	code=0
	usr/bin/systemd-analyze verify --man=no "./$unit.service" 2>&1 | sed "s|$PWD/||" || code=$?
	echo "$unit: exit status $code"
done
END
expect bash -o pipefail check.sh <<'END' || exit 1
misspelt.service:2: Unknown key 'PartOff' in section [Unit], ignoring.
misspelt.service:5: Failed to parse sec value, ignoring: soon
misspelt: exit status 0
empty.service: Service has no ExecStart=, ExecStop=, or SuccessAction=. Refusing.
Unit empty.service has a bad unit file setting.
empty: exit status 1
END
