#!/bin/bash
# Guess:     in OnCalendar=, "Mon..Fri 08:00..18:00" is the time from 8 to 18 o'clock, or is refused, since a timer has no
#            duration; and 22:00..06:00 is refused, since it runs backwards.
# Behaviour: both are accepted. ".." stands between two minutes, not two times of a day: "08:00..18:00" elapses at each minute
#            from 08:00 to 08:18, and "22:00..06:00", meant as a night, from 22:00 to 22:06.
# Versions seen: systemd 252.39-1~deb12u2
# Met by:    administrators who write the hours of a GPU reservation or of a profile as a calendar expression: the timer of
#            the working day starts its unit 19 times and is over before 08:19.
# Fails:     if the output is not that at the end of this script, which was seen with these versions.
set -euo pipefail
dir=$(mktemp -d)
# shellcheck source=findings/lib.bash
. "$(dirname "$0")/lib.bash"

debian_package systemd 252.39-1~deb12u2
debian_package libsystemd-shared 252.39-1~deb12u2
cat >"$dir/ranges.sh" <<'END'
export LD_LIBRARY_PATH=usr/lib/x86_64-linux-gnu/systemd TZ=UTC
for range in "Mon..Fri 08:00..18:00" "22:00..06:00"; do
	echo "$range"
	usr/bin/systemd-analyze calendar --base-time="2026-11-28 12:00:00" --iterations=20 "$range" 2>&1 |
		sed -n 's/.*Next elapse: /  first /p; s/ *Iter. #\(2\|19\|20\): /  number \1: /p; s/.*\(Failed .*\)/  \1/p'
done
END
expect bash ranges.sh <<'END' || exit 1
Mon..Fri 08:00..18:00
  first Mon 2026-11-30 08:00:00 UTC
  number 2: Mon 2026-11-30 08:01:00 UTC
  number 19: Mon 2026-11-30 08:18:00 UTC
  number 20: Tue 2026-12-01 08:00:00 UTC
22:00..06:00
  first Sat 2026-11-28 22:00:00 UTC
  number 2: Sat 2026-11-28 22:01:00 UTC
  number 19: Mon 2026-11-30 22:04:00 UTC
  number 20: Mon 2026-11-30 22:05:00 UTC
END
