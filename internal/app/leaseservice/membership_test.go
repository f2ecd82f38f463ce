package leaseservice

import (
	"os"
	"path/filepath"
	"testing"

	"dcm/internal/engine/host"
)

func TestWithin(t *testing.T) {
	const lease = "dcm-lease-1000-4f1c09aa.scope"
	for _, tt := range []struct {
		name, cgroup, procs, below string
		within, alone              bool
	}{
		{"alone", "/dcm.slice/" + lease, "7\n", "", true, true},
		{"with a child", "/dcm.slice/" + lease, "7\n8\n", "", true, false},
		{"with a container below", "/dcm.slice/" + lease, "7\n", "libpod", true, false},
		{"below it", "/dcm.slice/" + lease + "/libpod", "7\n", "", true, false},
		{"in a service", "/dcm.slice/vllm.service", "7\n", "", false, false},
		{"elsewhere", "/user.slice/" + lease, "7\n", "", false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := processes{&host.Host{Root: t.TempDir()}}
			cgroup := p.host.Path("sys/fs/cgroup", tt.cgroup)
			for path, text := range map[string]string{
				p.host.Path("proc/7/cgroup"): "0::" + tt.cgroup + "\n", filepath.Join(cgroup, "cgroup.procs"): tt.procs,
				filepath.Join(cgroup, "cgroup.events"): "populated 1\nfrozen 0\n", filepath.Join(cgroup, tt.below, "cgroup.type"): "domain\n",
			} {
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			within := map[bool]string{true: lease}[tt.within]
			if unit, alone := p.Within(7); unit != within || alone != tt.alone {
				t.Errorf("it is in %q, alone %t; want %q, %t", unit, alone, within, tt.alone)
			}
			if tt.alone && (p.Empty(lease) || !p.Empty("dcm-lease-1000-00000000.scope")) {
				t.Error("a lease with a process is empty, or one that is gone is not")
			}
		})
	}
}
