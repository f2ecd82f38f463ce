package gpu

import (
	"strings"
	"testing"
)

func TestUnitOf(t *testing.T) {
	for _, test := range []struct{ name, cgroup, root, want string }{
		{"a service", "0::/system.slice/gpuagent.service", "", "gpuagent.service"},
		{"a service's own groups", "0::/system.slice/gpuagent.service/a/b.service", "", "gpuagent.service"},
		{"an instance in a nested slice", `0::/system.slice/system-vllm.slice/vllm@0\x2d1.service`, "", `vllm@0\x2d1.service`},
		{"a user's session", "0::/user.slice/user-1000.slice/session-3.scope", "", "session-3.scope"},
		{"a user's own manager", "0::/user.slice/user-1000.slice/user@1000.service/app.slice/x.service", "", "user@1000.service"},
		{"a container of systemd-nspawn", "0::/machine.slice/machine-a.scope/payload/system.slice/x.service", "", "machine-a.scope"},
		{"a pod", "0::/kubepods.slice/kubepods-besteffort.slice/cri-containerd-5e1.scope", "", "cri-containerd-5e1.scope"},
		{"a container without systemd's names", "0::/kubepods/besteffort/pod5e1/5e1", "", ""},
		{"PID 1", "0::/init.scope", "", "init.scope"},
		{"the root", "0::/", "", ""},
		{"a slice alone", "0::/system.slice", "", ""},
		{"a kernel thread's", "0::/", "", ""},
		{"cgroup v1", "12:devices:/system.slice/x.service\n1:name=systemd:/system.slice/x.service\n", "", "x.service"},
		{"hybrid", "1:name=systemd:/system.slice/a.service\n0::/system.slice/a.service\n", "", "a.service"},
		{"hybrid, the unified one unused", "1:name=systemd:/system.slice/a.service\n0::/\n", "", "a.service"},
		{"v1 without systemd's hierarchy", "4:memory:/system.slice/a.service\n", "", ""},
		{"removed while it ends", "0::/system.slice/a.service (deleted)\n", "", "a.service"},
		{"escaped", "0::/system.slice/_tasks.service", "", "tasks.service"},
		{"a colon in the name", "0::/system.slice/a:b.service", "", "a:b.service"},
		{"PID 1 in a group", "0::/docker/5e1/system.slice/a.service", "/docker/5e1", "a.service"},
		{"outside PID 1's group", "0::/docker/5e2/a.service", "/docker/5e", ""},
		{"outside the cgroup namespace", "0::/../../system.slice/a.service", "", ""},
		{"a template", "0::/system.slice/a@.service", "", ""},
		{"no name", "0::/system.slice/.service", "", ""},
		{"not a unit's characters", "0::/system.slice/a b.service", "", ""},
		{"garbage", "x\n0:\n::::\n", "", ""},
		{"empty", "", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := unitOf(test.cgroup, test.root); got != test.want {
				t.Errorf("unit %q, want %q", got, test.want)
			}
		})
	}
}

func TestCgroupRoot(t *testing.T) {
	for cgroup, want := range map[string]string{
		"0::/init.scope\n":                         "",
		"0::/docker/5e1/init.scope\n":              "/docker/5e1",
		"0::/\n1:name=systemd:/lxc/a/init.scope\n": "/lxc/a",
		"0::/\n": "",
		"0::/system.slice/some-other-init.service\n\n": "",
	} {
		if got := cgroupRoot(cgroup); got != want {
			t.Errorf("root of %q is %q, want %q", cgroup, got, want)
		}
	}
}

func FuzzCgroup(f *testing.F) {
	f.Add("0::/system.slice/gpuagent.service\n", "0::/init.scope\n")
	f.Add("1:name=systemd:/a/_b.service (deleted)\n", "1:name=systemd:/a/init.scope\n")
	f.Add("0::/user.slice/user@1000.service/x", "")
	f.Fuzz(func(t *testing.T, cgroup, one string) {
		unit := unitOf(cgroup, cgroupRoot(one))
		if unit == "" {
			return
		}
		if !validUnit(unit) || strings.ContainsAny(unit, "/\n ") || !strings.Contains(cgroup, unit) {
			t.Errorf("unit %q of %q", unit, cgroup)
		}
	})
}
