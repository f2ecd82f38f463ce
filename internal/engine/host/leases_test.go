package host

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestLeasesAreSeenByTheirCgroups(t *testing.T) {
	h := &Host{Root: t.TempDir()}
	if got := LeaseHolders(h); len(got) > 0 {
		t.Errorf("without a slice: %+v", got)
	}
	for name, text := range map[string]string{
		"sys/fs/cgroup/dcm.slice/dcm-lease-0-4f1c09aa.scope/cgroup.procs":            "70\n71\n72\n",
		"sys/fs/cgroup/dcm.slice/dcm-share2-0-00000001.scope/cgroup.procs":           "",
		"sys/fs/cgroup/dcm.slice/dcm-share2-0-00000001.scope/container/cgroup.procs": "73\n",
		"sys/fs/cgroup/dcm.slice/dcm-exclusive-0-00000002.scope/cgroup.procs":        "",
		"sys/fs/cgroup/dcm.slice/vllm.service/cgroup.procs":                          "74\n",
		"proc/71/comm": "py\x1bthon\n",
	} {
		path := h.Path(name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got := LeaseHolders(h)
	if len(got) != 2 || got[0].PID != 71 || got[0].Command != `py\x1bthon` || got[0].LeaseOwner != "root" || got[1].PID != 73 {
		t.Errorf("the leases are %+v", got)
	}
}

func TestLeaseHolders_Nodes(t *testing.T) {
	const unit = "dcm-lease-0-4f1c09aa.scope"
	for _, test := range []struct {
		name  string
		files map[string]string
		want  []string
	}{
		{"no file", nil, nil},
		{"no list", map[string]string{unit: "[Scope]\nDevicePolicy=auto\n"}, nil},
		{"partitions", map[string]string{unit: "[Scope]\nDeviceAllow=/dev/kfd rwm\nDeviceAllow=/dev/dri/renderD129 rwm\n"}, []string{"/dev/kfd", "/dev/dri/renderD129"}},
		{"a drop-in adds one", map[string]string{unit: "DeviceAllow=/dev/dri/renderD129 rwm\n", unit + ".d/50-DeviceAllow.conf": "[Scope]\nDeviceAllow=\nDeviceAllow=/dev/dri/renderD130 rw\n"},
			[]string{"/dev/dri/renderD129", "/dev/dri/renderD130"}},
		{"a class of devices", map[string]string{unit: "DeviceAllow=/dev/dri/renderD129 rwm\nDeviceAllow=char-drm rw\n"}, nil},
	} {
		h := &Host{Root: t.TempDir()}
		files := map[string]string{h.Path("sys/fs/cgroup/dcm.slice", unit, "cgroup.procs"): "71\n"}
		for name, text := range test.files {
			files[h.Path("run/systemd/transient", name)] = text
		}
		for path, text := range files {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := LeaseHolders(h); len(got) != 1 || !slices.Equal(got[0].Leased, test.want) {
			t.Errorf("%s: %+v, want nodes %q", test.name, got, test.want)
		}
	}
}
