#!/bin/bash
# Guess:     "systemctl preset" enables the units that a preset file names with "enable", and leaves or disables
#            all others.
# Behaviour: a unit that no line names is enabled. That holds without any preset file, and with one that only enables
#            others. A line "disable *" in the last file makes it the guess.
# Versions seen: systemd 252.39-1~deb12u2
# Met by:    packages that call preset after the installation, for a service that must wait for its configuration,
#            and builders of images that list the units they want.
# Fails:     if the output is not that at the end of this script, which was seen with this version.
set -euo pipefail
dir=$(mktemp -d)
# shellcheck source=findings/lib.bash
. "$(dirname "$0")/lib.bash"

debian_package systemd 252.39-1~deb12u2
debian_package libsystemd-shared 252.39-1~deb12u2
mkdir -p "$dir/root/etc/systemd/"{system,system-preset}
cat >"$dir/root/etc/systemd/system/gpu.service" <<'END'
[Service]
ExecStart=/bin/true
[Install]
WantedBy=multi-user.target
END
cat >"$dir/preset.sh" <<'END'
export LD_LIBRARY_PATH=usr/lib/x86_64-linux-gnu/systemd
presets=root/etc/systemd/system-preset
try() {
	bin/systemctl --root="$PWD/root" --quiet disable gpu.service 2>/dev/null
	bin/systemctl --root="$PWD/root" --quiet preset gpu.service 2>/dev/null
	echo "$1: $(bin/systemctl --root="$PWD/root" is-enabled gpu.service)"
}
try "no preset"
echo "enable other.service" >$presets/50-site.preset
try "another unit enabled"
echo "disable *" >$presets/99-site.preset
try "the rest disabled"
END
expect bash preset.sh <<'END' || exit 1
no preset: enabled
another unit enabled: enabled
the rest disabled: disabled
END
