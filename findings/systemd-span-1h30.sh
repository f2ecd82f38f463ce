#!/bin/bash
# Guess:     in RuntimeMaxSec= and the like, 1h30 is 90 minutes, 5M is five minutes as 5m is, and
#            1:30 is as in the time limits of batch systems.
# Behaviour: a number without a unit is in seconds, also after another unit: 1h30 is one hour and 30
#            seconds. M is a month of 30.44 days. Only the form with a colon is refused.
# Versions seen: systemd 252.39-1~deb12u2
# Met by:    administrators who limit the time of a GPU job with the habits of a batch system: it ends
#            half an hour early, or keeps its GPUs for months. The unit file has no error.
# Fails:     if the output is not that at the end of this script, which was seen with these versions.
set -euo pipefail
dir=$(mktemp -d)
# shellcheck source=findings/lib.bash
. "$(dirname "$0")/lib.bash"

debian_package systemd 252.39-1~deb12u2
debian_package libsystemd-shared 252.39-1~deb12u2
cat >"$dir/spans.sh" <<'END'
export LD_LIBRARY_PATH=usr/lib/x86_64-linux-gnu/systemd
for span in 1h30 1h30m 5m 5M 90 1:30; do
	text=$(usr/bin/systemd-analyze timespan "$span" 2>&1) || true
	echo "$span: $(grep -Eo 'Human: .*|Failed.*' <<<"$text")"
done
END
expect bash spans.sh <<'END' || exit 1
1h30: Human: 1h 30s
1h30m: Human: 1h 30min
5m: Human: 5min
5M: Human: 5month
90: Human: 1min 30s
1:30: Failed to parse time span '1:30': Invalid argument
END
