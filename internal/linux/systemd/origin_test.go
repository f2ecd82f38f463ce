package systemd

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOrigin(t *testing.T) {
	p := startPID1(t)
	p.set("job.service", "active/running", "")
	p.property("job.service", "KillMode", "control-group")
	p.property("job.service", "ActiveState", "active")
	p.set("ending.service", "deactivating/stop", "")
	p.property("ending.service", "KillMode", "control-group")
	p.property("ending.service", "ActiveState", "deactivating")
	p.set("cron.service", "active/running", "")
	p.property("cron.service", "KillMode", "process")
	p.property("cron.service", "ActiveState", "active")
	p.set("user@1000.service", "active/running", "")
	p.property("user@1000.service", "KillMode", "mixed")
	p.set("lease-a.scope", "active/running", "")
	p.property("lease-a.scope", "PartOf", []string{"job.service"})
	p.set("lease-b.scope", "active/running", "")
	p.set("init.scope", "active/running", "")
	c, ctx := p.dial()
	bound := []Property{{"PartOf", []string{"job.service"}}, {"StopPropagatedFrom", []string{"job.service"}}, {"Before", []string{"job.service"}}}
	for _, test := range []struct {
		policy any // init.scope's OOMPolicy=; nil if scopes have none
		cgroup string
		want   []Property
	}{
		{nil, "/system.slice/job.service", bound},
		{"continue", "/system.slice/job.service/sub", append([]Property{{"OOMPolicy", "continue"}}, bound...)},
		{"stop", "/system.slice/ending.service", []Property{{"OOMPolicy", "continue"}}},
		{nil, "/system.slice/cron.service", nil},
		{nil, "/user.slice/user-1000.slice/session-3.scope", nil},
		{nil, "/user.slice/user-1000.slice/user@1000.service/app.slice/job.service", nil},
		{nil, "/dcm.slice/lease-a.scope", bound},
		{nil, "/dcm.slice/lease-b.scope", nil},
		{nil, "/", nil},
	} {
		p.property("init.scope", "OOMPolicy", test.policy)
		got, err := c.Processes.Origin(ctx, test.cgroup, func(unit string) bool { return strings.HasPrefix(unit, "lease-") })
		if err != nil {
			t.Errorf("%s: %v", test.cgroup, err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("scopes with OOMPolicy=%v, %s (-want +got):\n%s", test.policy, test.cgroup, diff)
		}
	}
	p.property("job.service", "ConsistsOf", []string{"other.service", "lease-a.scope", "lease-b.scope"})
	p.property("job.service", "InactiveExitTimestampMonotonic", uint64(200))
	p.property("cron.service", "InactiveExitTimestampMonotonic", uint64(200))
	p.property("lease-a.scope", "InactiveExitTimestampMonotonic", uint64(100))
	p.property("lease-b.scope", "InactiveExitTimestampMonotonic", uint64(300))
	for cgroup, want := range map[string][]string{"/system.slice/job.service": {"lease-a.scope"}, "/system.slice/cron.service": nil, "/dcm.slice/lease-a.scope": nil, "/": nil} {
		service, run, err := c.Processes.ServiceRun(ctx, cgroup)
		if err != nil {
			t.Errorf("%s: %v", cgroup, err)
		}
		if service == "" {
			if want != nil {
				t.Errorf("cgroup %s: found no service", cgroup)
			}
			continue
		}
		got, err := c.Processes.Leftovers(ctx, service, run, func(unit string) bool { return strings.HasPrefix(unit, "lease-") })
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("leftovers of %s (-want +got), %v:\n%s", cgroup, err, diff)
		}
	}
	p.mu.Lock()
	delete(p.units, "init.scope")
	p.mu.Unlock()
	if got, err := c.Processes.Origin(ctx, "/", func(string) bool { return false }); err == nil {
		t.Errorf("an unexpected error of PID 1 is ignored: %v", got)
	}
}
