package e2e_test

import (
	"fmt"
	"strings"
	"time"

	"dcm/internal/testkit/e2e/leasesoak"
	"dcm/internal/testkit/soak"
)

// fault runs one action of an operator or one crash.
func (s *leaseSoak) fault() string {
	s.t.Helper()
	step := soak.Pick(s.rand, []soak.Step{
		{Name: "kill of the daemon", Weight: 6, Do: func() { s.try("systemctl kill --signal=KILL dcm"); s.recovery = startUnits }},
		{Name: "kill of the daemon during requests", Weight: 12, Do: func() { s.during("systemctl kill --signal=KILL dcm", startUnits) }},
		{Name: "restart of the daemon during requests", Weight: 6, Do: func() { s.during("systemctl restart dcm", startUnits) }},
		{Name: "daemon-reexec during requests", Weight: 6, Do: func() { s.during("systemctl daemon-reexec", startUnits) }},
		{Name: "daemon-reload during requests", Weight: 6, Do: func() { s.during("systemctl daemon-reload", startUnits) }},
		{Name: "generator killed during daemon-reload", Weight: 6, Do: s.generatorKilled},
		{Name: "kill of the bus during requests", Weight: 2, Do: func() { s.during("systemctl kill --signal=KILL dbus", startUnits) }},
		{Name: "kill of all processes", Weight: 3, Do: s.killAll},
		{Name: "change of reservations", Weight: 4, Do: s.change},
		{Name: "kill during a change of reservations", Weight: 4, Do: s.changeKilled},
		{Name: "kill of dcm-reserve", Weight: 6, Do: s.reserveKilled},
		{Name: "change of reservations without inotify", Weight: 1, Do: s.changeWithoutInotify},
		{Name: "repartition", Weight: 4, Do: s.repartition},
		{Name: "repartition during requests", Weight: 4, Do: s.repartitionDuring},
		{Name: "restart of services during requests", Weight: 6, Do: func() { s.during("systemctl restart alpha beta", startUnits) }},
		{Name: "stop of the slice", Weight: 2, Do: s.stopSlice},
		{Name: "kill of the guard during requests", Weight: 4, Do: s.killGuard},
		{Name: "drain with waiting requests", Weight: 5, Do: s.drain},
		{Name: "kill of the daemon before its reply", Weight: 5, Do: s.killMoved},
		{Name: "reboot", Weight: 1, Do: s.restart},
	})
	s.count["fault: "+step.Name]++
	step.Do()
	return step.Name
}

// during runs a script while clients start and end. A request may fail.
func (s *leaseSoak) during(script string, then recovery) {
	s.t.Helper()
	s.batch(script, leasesoak.Batch{
		Steps: s.randomSteps(4 + s.rand.IntN(5)), Unchecked: true,
		Script: fmt.Sprintf("sleep %.3f; %s", s.delay(100*time.Millisecond).Seconds(), script),
	})
	s.recovery = then
}

// endLeases kills all clients.
func (s *leaseSoak) endLeases() {
	s.t.Helper()
	s.batch("end of all leases", leasesoak.Batch{End: true})
}

// killAll kills all processes of dcm and the reserved services.
func (s *leaseSoak) killAll() {
	s.batch("kill of all processes", leasesoak.Batch{
		End: s.rand.IntN(2) == 0, Unchecked: true, Script: "systemctl kill --signal=KILL dcm dcm-apply dcm-reserve dcm-guard alpha beta; systemctl start alpha beta",
	})
	s.recovery = startUnits
}

func (s *leaseSoak) change() {
	s.alpha, s.beta, s.exclusive = s.rand.IntN(5), s.rand.IntN(3), s.rand.IntN(2) == 0
	s.configure()
	s.recovery = restartUnits
}

func (s *leaseSoak) changeKilled() {
	s.change()
	s.during("systemctl kill --signal=KILL "+[]string{"dcm", "dcm-reserve", "dcm-guard", "dcm-apply"}[s.rand.IntN(4)], restartUnits)
}

// reserveKilled kills dcm-reserve.service during its run.
func (s *leaseSoak) reserveKilled() {
	s.change()
	s.during(fmt.Sprintf(`pid=$(timeout 5 %s) && sleep %.3f && kill -KILL $pid`, waitFor(mainPID("dcm-reserve")), s.delay(60*time.Millisecond).Seconds()), awaitDaemon)
}

// repairs waits until the daemon has run dcm-reserve.service or dcm-guard.service again, and
// the reserved services are active without a start by the test.
func (s *leaseSoak) repairs() {
	s.t.Helper()
	failed := "dcm-reserve"
	if s.alpha > 0 && s.exclusive { // the daemon runs the guard again for exclusive partitions alone
		failed += " dcm-guard"
	}
	s.until(`cat /run/dcm/state.json; systemctl is-active dcm && systemctl is-active alpha && systemctl is-active beta && ! systemctl is-failed ` + failed + ` && ! grep -q -e '"pending_starts"' -e '"retry"' /run/dcm/state.json`)
}

// changeWithoutInotify has the daemon find a change by polling.
func (s *leaseSoak) changeWithoutInotify() {
	s.refuseInotify()
	s.change()
	s.batch("change without inotify", leasesoak.Batch{Steps: s.randomSteps(4), Unchecked: true})
	s.run("dcm check")
	s.allowInotify()
}

// repartition must be refused while there is a lease.
func (s *leaseSoak) repartition() {
	s.t.Helper()
	if s.rand.IntN(3) > 0 {
		s.endLeases()
	}
	before := s.holders
	s.otherProfile()
	r := s.try("dcm apply")
	if before > 0 && r.Code == 0 {
		s.t.Errorf("repartition with %d leases: want a refusal, got success: %s", before, r.Stdout)
	}
	if before == 0 && r.Code != 0 {
		s.t.Errorf("repartition without a lease: want success, got %s", r.Stderr)
	}
	if before > 0 {
		s.count["repartition refused"]++
		s.otherProfile()
	}
	s.recovery = restartUnits
}

func (s *leaseSoak) otherProfile() {
	s.profile = map[bool]string{true: "cpx-fast", false: "qpx-fast"}[s.profile == "qpx-fast"]
	s.configure()
}

// repartitionDuring runs a repartition and requests concurrently. Either may be first.
func (s *leaseSoak) repartitionDuring() {
	s.endLeases()
	s.otherProfile()
	s.during("true", restartUnits)
	s.batch("repartition during requests", leasesoak.Batch{End: true, Unchecked: true})
}

// drain waits for the end of all leases, while processes in leases request others and clients
// start. It ends with the leases.
func (s *leaseSoak) drain() {
	s.batch("drain during requests", leasesoak.Batch{
		Steps: s.waiters(1 + s.rand.IntN(3)), Unchecked: true,
		Script: fmt.Sprintf(`rm -f /run/drained; mkfifo /run/drained
for request in 'exec dcm run -n 2 --wait -- true' 'exec dcm run --wait -- true' 'dcm run -n 2 --wait -- true; :'; do
	setsid dcm run -- sh -c "sleep %.3f; $request" >/dev/null 2>&1 </dev/null &
done
sleep %.3f; setsid sh -c 'dcm apply --when-idle >/run/drain.log 2>&1; echo $? >/run/drained' >/dev/null 2>&1 </dev/null &`,
			s.delay(400*time.Millisecond).Seconds(), s.delay(200*time.Millisecond).Seconds()),
	})
	r := s.batch("end of a drain", leasesoak.Batch{End: true, Unchecked: true, Script: "timeout 120 cat /run/drained; cat /run/drain.log >&2"})
	if !strings.HasPrefix(r.Output, "0\n") {
		s.t.Errorf("exit status of a drain after the end of the leases: want 0, got %s", r.Output)
	}
	s.recovery = startUnits
}

// killMoved kills the daemon after it has moved a process into its lease.
func (s *leaseSoak) killMoved() {
	s.batch("kill of the daemon before its reply", leasesoak.Batch{
		Steps: s.waiters(1 + s.rand.IntN(3)), Unchecked: true,
		Script: `before=$(ls -d /sys/fs/cgroup/dcm.slice/dcm-*.scope)
timeout 5 e2e-agent await-command '[ "$(ls -d /sys/fs/cgroup/dcm.slice/dcm-*.scope)" != "$1" ]' "$before"; systemctl kill --signal=KILL dcm`,
	})
	s.recovery = startUnits
}

// waiters are clients that wait for a lease.
func (s *leaseSoak) waiters(n int) []leasesoak.Step {
	steps := make([]leasesoak.Step, n)
	for i := range steps {
		steps[i] = leasesoak.Step{Do: leasesoak.Wait, User: []string{"root", "ada", "bob"}[s.rand.IntN(3)], Args: s.args(true), After: s.delay(300 * time.Millisecond)}
	}
	return steps
}

func (s *leaseSoak) stopSlice() {
	s.run("systemctl stop dcm.slice; systemctl start alpha beta")
	s.recovery = startUnits
}

func (s *leaseSoak) killGuard() {
	s.during(fmt.Sprintf("systemctl restart --no-block dcm-guard; sleep %.3f; systemctl kill --signal=KILL dcm-guard", s.delay(60*time.Millisecond).Seconds()), awaitDaemon)
}

// generatorKilled starts the reserved units without their drop-ins. The daemon restarts them
// with the drop-ins.
func (s *leaseSoak) generatorKilled() {
	s.t.Helper()
	s.during(killing("systemctl daemon-reload; systemctl restart alpha beta"), startUnits)
	for unit, n := range map[string]int{"alpha": s.alpha, "beta": s.beta} {
		if n > 0 {
			s.until("systemctl show -P ControlGroup " + unit + " | grep -q ^/dcm.slice")
		}
	}
}
