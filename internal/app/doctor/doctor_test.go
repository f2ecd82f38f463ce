package doctor

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/text"
)

// tree is a host: contents by path. A content "-> X" is a symbolic link to X.
type tree map[string]string

func (t tree) with(more tree) tree {
	out := maps.Clone(t)
	maps.Copy(out, more)
	return out
}

func (t tree) write(tb testing.TB) string {
	tb.Helper()
	root := tb.TempDir()
	for name, text := range t {
		file := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(file), 0o755)
		if err == nil {
			if to, link := strings.CutPrefix(text, "-> "); link {
				err = os.Symlink(to, file)
			} else {
				err = os.WriteFile(file, []byte(text), 0o644)
			}
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	return root
}

// gpu is a PCI function with its driver.
func gpu(address, vendor, device, driver string) tree {
	dir := "sys/bus/pci/devices/" + address + "/"
	return tree{
		dir + "vendor": vendor + "\n", dir + "device": device + "\n", dir + "class": "0x120000\n", dir + "reset": "",
		dir + "driver": "-> ../../../bus/pci/drivers/" + driver,
	}
}

const address = "0000:05:00.0"

// healthy hosts have no finding.
func healthyAMD() tree {
	return gpu(address, "0x1002", "0x74a1", "amdgpu").with(tree{
		"proc/sys/kernel/osrelease":                   "6.14.0-79-generic\n",
		"sys/module/amdgpu/version":                   "6.14.14\n",
		"sys/module/amdgpu/taint":                     "OE\n",
		"sys/kernel/security/lockdown":                "[none] integrity confidentiality\n",
		"sys/fs/cgroup/cgroup.controllers":            "cpu io memory dmem\n",
		"opt/rocm/lib/libamd_smi.so.26.1.0":           "",
		"etc/udev/rules.d/70-gpu.rules":               "SUBSYSTEM==\"kfd\", MODE=\"0660\"\n",
		pciDevices + "/" + address + "/vbios_version": "113-M3000100-102\n",
	})
}

const nvrm = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.82.07  Release Build\nGCC version: 14\n"

func healthyNVIDIA(device string) tree {
	return gpu(address, "0x10de", device, "nvidia").with(tree{
		"proc/sys/kernel/osrelease":                          "6.8.0\n",
		"proc/driver/nvidia/version":                         nvrm,
		"usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.82.07": "",
		"sys/module/nvidia_drm/parameters/modeset":           "N\n",
	})
}

func TestRun_Healthy(t *testing.T) {
	for name, host := range map[string]tree{
		"AMD": healthyAMD(), "A100": healthyNVIDIA("0x20b2"), "B200": healthyNVIDIA("0x2901"), "no GPU": {"proc/1/comm": "systemd\n"},
	} {
		r := Run(host.write(t), Config{Exclusive: true})
		if len(r.Findings) > 0 || r.OK != len(Checks()) {
			t.Errorf("%s: %s: %v", name, r.Summary(), r.Findings)
		}
	}
}

// refreshing is a host with NVIDIA's service and, unless there are none, a file with these devices.
func refreshing(uuids ...string) tree {
	t := healthyNVIDIA("0x2330").with(tree{"etc/systemd/system/multi-user.target.wants/nvidia-cdi-refresh.service": ""})
	if len(uuids) > 0 {
		t = t.with(tree{"run/cdi/nvidia.yaml": "kind: nvidia.com/gpu\ndevices:\n- name: " + strings.Join(uuids, "\n- name: ") + "\n- name: all\n"})
	}
	return t
}

// A host is in one of these states: the file is right, stale, of a service that has failed, or was never written.
func TestCDI_States(t *testing.T) {
	const one, two, gpu = "MIG-11111111-2222-3333-4444-555555555555", "MIG-21111111-2222-3333-4444-555555555555", "GPU-31111111-2222-3333-4444-555555555555"
	for _, tt := range []struct {
		name string
		host tree
		cdi  CDI
		want string // the findings
	}{
		{"right", refreshing(one, gpu), CDI{UUIDs: []string{one, gpu}, GPUs: []string{gpu}}, ""},
		{"names are indices", refreshing("0:1"), CDI{UUIDs: []string{one}}, ""},
		{"never written", refreshing(), CDI{UUIDs: []string{one}}, "nvidia-cdi"},
		{"failed without a file", refreshing(), CDI{UUIDs: []string{one}, Failed: true}, "nvidia-cdi-failed"},
		{"failed with an old file", refreshing(two), CDI{UUIDs: []string{one}, Failed: true}, "nvidia-cdi-failed nvidia-cdi-stale"},
		{"stale: device added", refreshing(two), CDI{UUIDs: []string{one, two}}, "nvidia-cdi-stale"},
		{"stale: device removed", refreshing(one, two), CDI{UUIDs: []string{one}}, "nvidia-cdi-stale"},
		{"no instances and an old file", refreshing(one), CDI{Empty: true, Failed: true, GPUs: []string{gpu}}, "nvidia-cdi-stale"},
		{"no instances", refreshing(), CDI{Empty: true, Failed: true, GPUs: []string{gpu}}, "nvidia-cdi-empty"},
		{"no service", healthyNVIDIA("0x2330"), CDI{UUIDs: []string{one}}, ""},
	} {
		var found []string
		for _, f := range Run(tt.host.write(t), Config{CDI: tt.cdi}).Findings {
			found = append(found, f.ID)
		}
		if got := strings.Join(found, " "); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// Each check has a host with its problem, and finds it there.
func TestRun_Problems(t *testing.T) {
	const device = pciDevices + "/" + address
	eight := healthyAMD()
	for _, a := range []string{"0000:26:00.0", "0000:46:00.0", "0000:65:00.0", "0000:85:00.0", "0000:a6:00.0", "0000:c6:00.0", "0000:e5:00.0"} {
		eight = eight.with(gpu(a, "0x1002", "0x74a1", "amdgpu"))
	}
	eight = eight.with(tree{"sys/bus/pci/devices/0000:03:00.0/class": "0x030000\n", "proc/sys/kernel/osrelease": "6.8.0-79-generic\n"})
	untested := make(map[string]bool)
	for _, c := range Checks() {
		untested[c.ID] = true
	}
	for id, tt := range map[string]struct {
		host tree
		cfg  Config
		want string
		also []string // checks that the same cause concerns
	}{
		"amd-vbios":   {host: healthyAMD().with(tree{device + "/vbios_version": "022.040.003.041.000001\n"}), want: address + ": VBIOS too old (found 022.040.003.041.000001, want 022.040.003.042)"},
		"amd-driver":  {host: healthyAMD().with(tree{"sys/module/amdgpu/version": "6.10.5\n"}), want: "amdgpu: driver too old (found 6.10.5, want 6.12.12)"},
		"amd-kernel":  {host: healthyAMD().with(tree{"proc/sys/kernel/osrelease": "5.14.0-427.el9\n"}), want: "kernel: too old (found 5.14.0-427.el9, want 5.15)"},
		"amd-library": {host: healthyAMD().with(tree{"opt/rocm/lib/libamd_smi.so.26.1.0": "", "opt/rocm/lib/libamd_smi.so.24.7": ""}).without("opt/rocm/lib/libamd_smi.so.26.1.0"), want: "libamd_smi: library too old (found 24.7, want 25.3)"},
		"amd-memory":  {host: healthyAMD().without("sys/module/amdgpu/version").with(tree{"proc/sys/kernel/osrelease": "6.12.89+deb13-amd64\n"}), want: "kernel: new memory of a GPU may hold data of the last process (found 6.12.89+deb13-amd64, want 6.12.90)"},
		"amd-cached-mode": {host: healthyAMD(), cfg: Config{Kernel: []string{
			"[   12.000000] host kernel: amdgpu 0000:0c:00.0: amdgpu: SMU is initialized", "[   99.000000] host kernel: amdgpu " + address + ": Cached partition mode 0 not matching with device mode 15",
			"[  100.000000] host kernel: amdgpu " + address + ": Cached partition mode 0 not matching with device mode 15",
		}}, want: address + ": the kernel log says that the driver has compute mode 0 and the GPU 15"},
		"drm-minors": {host: eight, want: "kernel: not enough DRM minors (found 64, want 65)"},
		"ast":        {host: eight.with(tree{"sys/module/ast/initstate": "live\n"}), want: "ast: the display driver of the management controller takes DRM minors", also: []string{"drm-minors"}},
		"dmem":       {host: healthyAMD().with(tree{"sys/fs/cgroup/cgroup.controllers": "cpu io memory\n"}), want: "kernel: no dmem controller: memory of shared partitions is not capped"},

		"nvidia-driver":       {host: healthyNVIDIA("0x3182").with(version("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.133.20  Release Build\n", "570.133.20")), want: address + ": driver too old for MIG on B300 (found 570.133.20, want 580.82.07)"},
		"nvidia-open-modules": {host: healthyNVIDIA("0x2901").with(version("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.82.07  Fri\n", "580.82.07")), want: address + ": B200-180GB needs the open kernel modules (found the proprietary ones)"},
		"nvidia-library":      {host: healthyNVIDIA("0x20b2").with(tree{"proc/driver/nvidia/version": strings.Replace(nvrm, "580.82.07", "580.95.05", 1)}), want: "libnvidia-ml: not the version of the driver (found 580.82.07, want 580.95.05)"},
		"nvidia-drm-modeset":  {host: healthyNVIDIA("0x20b2").with(tree{"sys/module/nvidia_drm/parameters/modeset": "Y\n"}), want: "nvidia_drm: modeset=1 holds every GPU: A100-80GB cannot be reset to switch MIG"},
		"nvidia-peermem":      {host: healthyNVIDIA("0x20b2").with(tree{"sys/module/nvidia_peermem/initstate": "live\n"}), want: "nvidia_peermem: the module holds the driver: A100-80GB cannot be reset to switch MIG"},
		"mig-reset":           {host: healthyNVIDIA("0x20b2").without(device + "/reset"), want: address + ": cannot be reset: MIG cannot be switched on A100-80GB"},
		"virtual-gpu":         {host: healthyAMD(), cfg: Config{Guests: []string{address}}, want: address + ": it is a virtual GPU: only its host can set its modes or MIG"},
		"nvidia-cdi":          {host: healthyNVIDIA("0x2330").with(tree{"etc/systemd/system/multi-user.target.wants/nvidia-cdi-refresh.service": ""}), want: "nvidia-cdi-refresh.service: it has written no CDI file: containers get no GPU"},
		"nvidia-cdi-failed":   {host: refreshing("MIG-11111111-2222-3333-4444-555555555555"), cfg: Config{CDI: CDI{Failed: true, UUIDs: []string{"MIG-11111111-2222-3333-4444-555555555555"}}}, want: "nvidia-cdi-refresh.service: it has failed: /run/cdi/nvidia.yaml may be of an earlier state"},
		"nvidia-cdi-stale":    {host: refreshing("MIG-11111111-2222-3333-4444-555555555555"), cfg: Config{CDI: CDI{UUIDs: []string{"MIG-0", "MIG-11111111-2222-3333-4444-555555555555"}}}, want: "/run/cdi/nvidia.yaml: it lacks MIG-0 (1 of 2 GPUs and MIG devices)"},
		"nvidia-cdi-empty":    {host: refreshing(), cfg: Config{CDI: CDI{Failed: true, Empty: true}}, want: "nvidia-cdi-refresh.service: it has written no CDI file: all GPUs are in MIG mode and none has an instance"},

		"vfio":            {host: gpu(address, "0x10de", "0x2330", "vfio-pci"), want: address + ": H100-80GB is bound to vfio-pci"},
		"console":         {host: healthyNVIDIA("0x20b2").with(tree{"sys/class/graphics/fb0/device": "-> ../../../" + address}), want: address + ": a console is on it (fb0)"},
		"display-manager": {host: healthyAMD().with(tree{"etc/systemd/system/display-manager.service": "-> /usr/lib/systemd/system/gdm.service"}), want: "display-manager.service: it is enabled and is no client: its greeter may have a GPU open"},
		"guard":           {host: healthyNVIDIA("0x2330").with(tree{"proc/sys/kernel/osrelease": "5.15.0-44-amd64\n"}), cfg: Config{Exclusive: true}, want: "kernel: it may not enforce exclusive partitions (found 5.15.0-44-amd64, want 6.1)"},
		"lockdown":        {host: healthyAMD().with(tree{"sys/kernel/security/lockdown": "none [integrity] confidentiality\n"}), want: "amdgpu: the module has no signature, and the kernel is locked down"},
		"kubelet-order":   {host: healthyAMD().with(tree{"etc/systemd/system/multi-user.target.wants/kubelet.service": ""}), want: "kubelet.service: it does not start after dcm-apply.service: at boot it counts the GPUs before they are partitioned"},
		"rival-manager":   {host: healthyAMD().with(tree{"proc/4711/comm": "device-config-m\n"}), want: "process 4711: device-config-m partitions the GPUs too"},
		"dynamic-rival": {
			host: healthyNVIDIA("0x2330").with(tree{"proc/4711/comm": "nvidia-mig-mana\n"}), cfg: Config{Dynamic: []string{"/etc/dcm/dcm.toml:9: profiles.p.group.dynamic"}}, also: []string{"rival-manager"},
			want: "/etc/dcm/dcm.toml:9: profiles.p.group.dynamic: a dynamic GPU belongs to dcm alone (found process 4711: nvidia-mig-mana partitions the GPUs too)",
		},
		"hami-mig":          {host: healthyNVIDIA("0x2330").with(tree{"proc/4711/comm": "vGPUmonitor\n", "tmp/migconfig.yaml": ""}), want: "HAMi: its device plugin sets MIG too (process 4711, /tmp/migconfig.yaml)"},
		"unlisted-service":  {host: healthyAMD(), cfg: Config{Services: []string{"ollama.service"}}, want: "ollama.service: it has a GPU open and is not listed under [clients]: a change would be refused"},
		"leftover-process":  {host: healthyAMD(), cfg: Config{Processes: []string{"process 4711 (python3)"}}, want: "process 4711 (python3): it has a GPU open and belongs to no unit: a change would be refused"},
		"held-memory":       {host: healthyAMD(), cfg: Config{Held: []OnGPU{{"0000:05:00.0", "149 GiB"}}}, want: "0000:05:00.0: 149 GiB of memory in use, and no process holds it"},
		"partition-missing": {host: healthyAMD(), cfg: Config{Lacking: []OnGPU{{"0000:05:00.0", "found 0, want 1"}}}, want: "0000:05:00.0: too few partitions with a device node of their own (found 0, want 1)"},
		"foreign-instance":  {host: healthyNVIDIA("0x2330"), cfg: Config{Foreign: []OnGPU{{"0000:1b:00.0", "3g.40gb at slot 0"}}}, want: "0000:1b:00.0: 3g.40gb at slot 0: neither the profile nor a lease has this instance: dcm destroys it"},
		"slurm-devices":     {host: healthyAMD(), cfg: Config{Slurm: "(null)"}, want: "slurm.conf: ConstrainDevices has no effect (found TaskPlugin=(null), want task/cgroup)"},
		"udev-mode":         {host: healthyAMD().with(tree{"etc/udev/rules.d/70-amdgpu.rules": "# kfd\nKERNEL==\"kfd\", MODE=\"0666\"\n"}), want: "/etc/udev/rules.d/70-amdgpu.rules: line 2 gives every user access to GPU devices"},
	} {
		t.Run(id, func(t *testing.T) {
			found := make(map[string]string)
			for _, f := range Run(tt.host.write(t), tt.cfg).Findings {
				found[f.ID] = f.Object + ": " + f.Text
				if f.Hint == "" {
					t.Errorf("%s has no hint", f.ID)
				}
			}
			if found[id] != tt.want {
				t.Errorf("found %q, want %q", found[id], tt.want)
			}
			delete(found, id)
			if others := slices.Sorted(maps.Keys(found)); !slices.Equal(others, tt.also) {
				t.Errorf("also found %v, want %v", found, tt.also)
			}
		})
		delete(untested, id)
	}
	for id := range untested {
		t.Errorf("%s has no host with its problem", id)
	}
}

func (t tree) without(name string) tree {
	out := maps.Clone(t)
	delete(out, name)
	return out
}

// version is a driver with a library of the same version.
func version(line, number string) tree {
	return tree{"proc/driver/nvidia/version": line, "usr/lib/x86_64-linux-gnu/libnvidia-ml.so." + number: ""}
}

// A client, or a unit that is ordered, is no finding.
func TestRun_Remedied(t *testing.T) {
	for name, host := range map[string]tree{
		"client":           {"etc/systemd/system/display-manager.service": "-> x", "etc/systemd/system/multi-user.target.wants/kubelet.service": ""},
		"HAMi without MIG": {"proc/4711/comm": "vGPUmonitor\n"},
		"drop-in": {"etc/systemd/system/multi-user.target.wants/kubelet.service": "",
			"etc/systemd/system/kubelet.service.d/dcm.conf": "[Unit]\nAfter=dcm-apply.service\n"},
	} {
		r := Run(healthyAMD().with(host).write(t), Config{Clients: map[string][]string{"client": {"display-manager.service", "kubelet.service"}}[name]})
		if len(r.Findings) > 0 {
			t.Errorf("%s: %v", name, r.Findings)
		}
	}
}

// nvidia_drm is no finding if a run may unload it, unless a text console keeps it loaded.
func TestRun_UnloadedForARun(t *testing.T) {
	host := healthyNVIDIA("0x20b2").with(tree{"sys/module/nvidia_drm/parameters/modeset": "Y\n"})
	console := host.with(tree{
		"sys/bus/pci/drivers/nvidia/module":    "-> ../../../../module/nvidia",
		"sys/class/graphics/fb0/device/driver": "-> ../../../../bus/pci/drivers/nvidia",
		"sys/module/nvidia/initstate":          "live\n",
		"sys/class/vtconsole/vtcon1/name":      "(M) frame buffer device\n",
		"sys/class/vtconsole/vtcon1/bind":      "1\n",
	})
	for name, tt := range map[string]struct {
		host tree
		want int
	}{"module": {host, 0}, "console": {console, 1}} {
		if r := Run(tt.host.write(t), Config{Reload: true}); r.Warnings != tt.want {
			t.Errorf("%s: %d warnings, want %d: %v", name, r.Warnings, tt.want, r.Findings)
		}
	}
}

var manualEntry = regexp.MustCompile(`(?m)^\.TP\n\.B ([a-z\\-]+) \((warning|error)\)\n(.*)\nHint: (.*)\n`)

// The manual lists the checks of the table, in its order.
func TestManual(t *testing.T) {
	manual, err := os.ReadFile("../../../packaging/man/dcm-check.7")
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, m := range manualEntry.FindAllStringSubmatch(string(manual), -1) {
		got = append(got, strings.ReplaceAll(strings.Join(m[1:], "|"), `\-`, "-"))
	}
	for _, c := range Checks() {
		want = append(want, strings.Join([]string{c.ID, string(c.Level), text.Sentence(c.Finds), text.Sentence(c.Hint)}, "|"))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("dcm-check.7 (-table +manual):\n%s", diff)
	}
}

// A kernel that clears the memory, and one of which that is unknown, get no remark.
func TestUnclearedMemory_NoRemark(t *testing.T) {
	inTree := healthyAMD().without("sys/module/amdgpu/version")
	for _, kernel := range []string{"6.12.90+deb13-amd64", "6.18.32", "7.0.9", "7.1.0", "7.2.13+deb14-amd64", "6.8.0-79-generic", "6.12.0-55.el10", "6.16.12", "6.12", ""} {
		for _, f := range Run(inTree.with(tree{"proc/sys/kernel/osrelease": kernel + "\n"}).write(t), Config{}).Findings {
			if f.ID == "amd-memory" {
				t.Errorf("kernel %q: %s", kernel, f.Text)
			}
		}
	}
	if r := Run(healthyAMD().with(tree{"proc/sys/kernel/osrelease": "6.12.89\n"}).write(t), Config{}); len(r.Findings) > 0 {
		t.Errorf("driver of ROCm: %v", r.Findings)
	}
}
