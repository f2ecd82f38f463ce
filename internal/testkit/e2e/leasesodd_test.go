package e2e_test

import "strings"

// leasesOdd: each command runs as without dcm, or fails with a reason. No lease is left.
func leasesOdd(m machine) {
	m.run(`useradd --badname --no-create-home --home-dir /nonexistent --groups dcm 'ai\lab.x' || useradd --no-create-home --home-dir /nonexistent --groups dcm ai_lab
		printf '#!/bin/sh\n' >/run/text; printf '#!/nonexistent\n' >/run/broken; printf 'echo $*; exit 3\n' >/run/plain; chmod 755 /run/broken /run/plain`)
	const group = `sed -n 's/^0:://p' /proc/self/cgroup`
	for _, o := range []struct {
		name, script string
		code         int
		out, err     string
	}{
		{"missing command", "dcm run -- nosuchthing", 127, "", "nosuchthing"},
		{"command without execute permission", "dcm run -- /run/text", 126, "", "permission denied"},
		{"script with a missing interpreter", "dcm run -- /run/broken", 127, "", "/nonexistent"},
		{"script without an interpreter line", "dcm run -- /run/plain a b", 3, "a b", ""},
		{"argument in invalid UTF-8", `dcm run -- printf %s "$(printf '\377')" | od -An -tx1`, 0, " ff", ""},
		{"directory as the command", "dcm run -- /run", 126, "", "is a directory"},
		{"command killed by SIGSEGV", "dcm run -- sh -c 'kill -SEGV $$'", 139, "", ""},
		{"command killed by SIGUSR1", "dcm run -- sh -c 'kill -USR1 $$'", 138, "", ""},
		{"no command", "dcm run -n 2", 64, "", ""},
		{"no open file", "dcm run -- sh -c '" + group + " >/run/nothing' <&- >&- 2>&-; cat /run/nothing", 0, "/dcm.slice/dcm-lease-0-", ""},
		{"many open files", `ulimit -n 4096; bash -c 'for i in {100..1500}; do eval "exec $i</dev/null"; done; exec dcm run -- sh -c "ls /proc/self/fd | wc -l"'`, 0, "140", ""},
		{"soft limits", "ulimit -Sn 77; ulimit -Hn 99; dcm run -- sh -c 'ulimit -Sn; ulimit -Hn'", 0, "77\n99", ""},
		{"in the background", `trap "" INT; plain=$(grep SigIgn: /proc/self/status); lent=$(dcm run -- grep SigIgn: /proc/self/status); echo "$plain: $lent"; case $plain in *[2367abef]) [ "$plain" = "$lent" ];; *) exit 9;; esac`, 0, "SigIgn:", ""},
		{"umask and directory", "cd /usr; umask 27; dcm run -- sh -c 'umask; pwd'", 0, "0027\n/usr\n", ""},
		{"empty environment", "env -i $(command -v dcm) run -- /bin/sh -c 'echo ok'", 0, "ok", ""},
		{"exec inside a lease", "dcm run -n 40 -- dcm run -n 40 -- sh -c '" + group + "'", 0, "/dcm.slice/dcm-lease-0-", ""},
		{"second lease inside a lease", "dcm run -n 40 -- sh -c 'dcm run -n 40 -- true; echo $?'", 0, "75", "dcm-lease-0-"},
		// As dcm-partitions(7) has it for MIG: CapEff is read after the exec of a root command.
		{"root without CAP_SYS_ADMIN", `dcm run -- setpriv --inh-caps -sys_admin --bounding-set -sys_admin sh -c 'e=$(sed -n "s/^CapEff:\t//p" /proc/self/status); echo sys_admin $((0x$e >> 21 & 1)) chown $((0x$e & 1))'`, 0, "sys_admin 0 chown 1\n", ""},
		{"service with NoNewPrivileges=", "systemd-run --quiet --wait --pipe -p User=ada -p NoNewPrivileges=yes -p ProtectSystem=strict -p PrivateTmp=yes -- dcm run -- sh -c '" + group + "'", 0, "/dcm.slice/dcm-lease-", ""},
		{"user without a home directory", `name=$(getent group dcm | sed 's/.*,//'); cd /; setpriv --reuid="$name" --regid="$name" --init-groups dcm run -- sh -c '` + group + "'", 0, "/dcm.slice/dcm-lease-", ""},
		{"user outside the group dcm", "setpriv --reuid=65534 --regid=65534 --clear-groups dcm run -- true", 1, "", "dcm"},
		{"in a user namespace", "setpriv --reuid=ada --regid=ada --init-groups unshare --user --map-root-user dcm run -- sh -c '" + group + "'", 0, "/dcm.slice/dcm-lease-", ""},
		{"in a process namespace", "unshare --pid --fork --mount-proc dcm run -- sh -c '" + group + "'", 0, "dcm-lease-0-", ""},
		{"set-uid", "cp $(command -v dcm) /usr/local/bin/gained; chmod 4755 /usr/local/bin/gained; " + ada + "gained run -- true", 1, "", "rights of more than one user"},
		{"caller in a scope", "systemd-run --quiet --scope --unit=mine dcm run -- sh -c '" + group + "'", 0, "/dcm.slice/dcm-lease-0-", ""},
		{"frozen unit in dcm.slice", "systemd-run --quiet --unit=icy --slice=dcm.slice sleep infinity; systemctl freeze icy; dcm run -- true; echo ended $?; systemctl thaw icy; systemctl stop icy", 0, "ended 0\n", ""},
		{"background process of a command", "dcm run -n 50 -- sh -c 'setsid sleep infinity >/dev/null 2>&1 & exit 3'; echo ended $?; dcm run -n 50 --dry-run >/dev/null 2>&1; echo dry $?; systemctl stop 'dcm-lease-*.scope'", 0, "ended 3\ndry 75\n", ""},
		{"stopped", "dcm run -n 50 -- sh -c 'kill -STOP $$; exit 4' & e2e-agent await-command 'grep -q ^State:.T /proc/$1/status' $!; dcm run -n 50 --dry-run >/dev/null 2>&1; echo dry $?; systemctl kill --signal=CONT --kill-whom=all 'dcm-lease-*.scope' 2>/dev/null || systemctl kill --signal=CONT 'dcm-lease-*.scope'; wait $!; echo ended $?", 0, "dry 75\nended 4\n", ""},
		{"released by name", "rm -f /run/lent; dcm run -- sh -c 'echo >/run/lent; exec sleep infinity' & " + waitFor("[ -e /run/lent ]") + "; dcm release $(systemctl list-units --plain --no-legend 'dcm-lease-*.scope' | cut -d' ' -f1); wait $!; echo ended $?", 0, "ended 143\n", ""},
	} {
		r := m.try(o.script)
		if r.Code != o.code || !strings.Contains(r.Stdout, o.out) || !strings.Contains(r.Stderr, o.err) {
			m.t.Errorf("%s: %d, %s%s, want %d, %q, %q", o.name, r.Code, r.Stdout, r.Stderr, o.code, o.out, o.err)
		}
		m.until(noLeases, "of "+o.name)
	}
	m.waitsEnded()
}

// waitsEnded: however a waiting process ends, its request leaves the wait queue.
func (m machine) waitsEnded() {
	m.run(`rm -f /run/roots; setsid dcm run -n 58 -- sh -c 'echo held >/run/roots; exec sleep infinity' >/dev/null 2>&1 </dev/null &`)
	m.await("/run/roots", "held")
	queues, none := queued(1)+"; ", queued(0)+" && ! [ -e /run/began ]"
	for _, s := range []struct{ end, status string }{{"INT", "130"}, {"TERM", "143"}, {"HUP", "129"}, {"KILL", "137"}} {
		r := m.try("rm -f /run/began; env --default-signal=INT dcm run -n 58 --wait -- touch /run/began 2>&1 & " + queues + "kill -" + s.end + " $!; wait $!; echo ended $?; " + none)
		if r.Code != 0 || !strings.HasSuffix(r.Stdout, "ended "+s.status+"\n") {
			m.t.Errorf("by SIG%s: %d, %s%s, want the end %s", s.end, r.Code, r.Stdout, r.Stderr, s.status)
		}
	}
	r := m.try("setsid script -qec 'dcm run -n 58 --wait -- touch /run/began' /dev/null >/dev/null 2>&1 </dev/null & " + queues + "kill -KILL $!; " + none)
	if r.Code != 0 {
		m.t.Errorf("waiter whose terminal is closed: want it removed from the queue, got %d, %s%s", r.Code, r.Stdout, r.Stderr)
	}
	m.run("systemctl stop 'dcm-lease-*.scope'")
}
