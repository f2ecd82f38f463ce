package e2e_test

import (
	"strings"

	"github.com/google/go-cmp/cmp"
)

// prober prints, from inside of a unit's sandbox, which of some paths are writable, and whether it can
// reach the host's root through another process.
const prober = `exec >/run/dcm/probed
for path in /boot /dev/shm /etc /etc/dcm /etc/modprobe.d /etc/systemd/system /home /opt /proc/sys/kernel /root /run /run/dcm /run/lock \
	/run/systemd/system /sys /sys/class /sys/devices /sys/fs/cgroup /sys/module /tmp /usr /usr/local/bin /var/lib /var/lib/dcm; do
	[ ! -w $path ] || echo $path
done
touch /run/e2e-probe 2>/dev/null && echo a file in /run
touch /proc/1/root/run/e2e-probe 2>/dev/null && echo the host, by way of PID 1
touch /tmp/e2e-probe /dev/shm/e2e-probe 2>/dev/null
[ "$(find /sys/devices/ -name current_compute_partition -writable 2>/dev/null | wc -l)" = 0 ] || echo the modes
`

// sandboxes runs another program with the sandbox settings of each unit, and checks both what they permit
// and what they deny. /run is among the paths because systemd leaves it writable with
// ProtectSystem=strict, where it excludes API file systems.
func sandboxes(m machine) {
	want := map[string]string{
		"dcm": "/dev/shm /etc/dcm /run/dcm /tmp /var/lib/dcm the host, by way of PID 1",
		"dcm-apply": "/dev/shm /etc/modprobe.d /opt /run /run/dcm /run/lock /run/systemd/system /sys/devices /tmp /var/lib /var/lib/dcm " +
			"a file in /run the host, by way of PID 1 the modes",
	}
	m.put("/usr/local/lib/e2e-probe", prober)
	for unit, places := range want {
		m.run(`sed -E -e 's|^ExecStart=.*|ExecStart=/bin/sh /usr/local/lib/e2e-probe|; s/^Type=.*/Type=oneshot/' \
			-e '/^(ExecReload|WatchdogSec|Restart|RestartSec|RemainAfterExit|Before|After)=/d' \
			/usr/lib/systemd/system/` + unit + `.service >/run/systemd/system/probe.service
			rm -f /run/e2e-probe; systemctl daemon-reload; systemctl start probe`)
		got := strings.Join(strings.Split(m.run("cat /run/dcm/probed"), "\n"), " ")
		if diff := cmp.Diff(places, got); diff != "" {
			m.t.Errorf("writable paths with the settings of %s (-want +got):\n%s", unit, diff)
		}
	}
	if got := m.run("ls /tmp/e2e-probe /dev/shm/e2e-probe 2>/dev/null || :"); strings.Contains(got, "/tmp/") {
		m.t.Errorf("file of the units in the host's /tmp: want none, got %s", got)
	}
	m.run("rm -f /run/e2e-probe /dev/shm/e2e-probe /run/dcm/probed /run/systemd/system/probe.service; systemctl daemon-reload")
}
