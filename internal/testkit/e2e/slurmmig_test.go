package e2e_test

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"dcm/internal/gpu/nvml/standin"
	"dcm/internal/testkit/e2e"
)

// slurmMIG has two profiles with the same instances on other GPUs, and one with other instances.
const slurmMIG = `profile = "first"
[clients]
units = ["gpuagent", "amd-metrics-exporter", "dcm-slurm-gres"]
[profiles.first]
memory = "NPS1"
[[profiles.first.group]]
compute = "SPX"
count = "rest"
[[profiles.first.group]]
mig = { "3g.40gb" = 2 }
count = 1
[[profiles.first.group]]
mig = { "1g.10gb+me" = 1, "1g.10gb" = 6 }
count = 1
[[profiles.first.group]]
mig = "off"
count = "rest"
[profiles.second]
memory = "NPS1"
[[profiles.second.group]]
compute = "SPX"
count = "rest"
[[profiles.second.group]]
mig = { "1g.10gb+me" = 1, "1g.10gb" = 6 }
count = 1
[[profiles.second.group]]
mig = { "3g.40gb" = 2 }
count = 1
[[profiles.second.group]]
mig = "off"
count = "rest"
[profiles.third]
memory = "NPS1"
[[profiles.third.group]]
compute = "SPX"
count = "rest"
[[profiles.third.group]]
mig = { "3g.40gb" = 2 }
count = "rest"
`

// nvmlPlugin names the environment variable with the path of Slurm's gpu_nvml.so. Debian's slurmd has no such
// plugin. It is built from the source of the same version of Slurm, after ./configure there, with nvml.h of
// Debian's libnvidia-ml-dev:
//
//	gcc -shared -fPIC -DHAVE_NVML -DHAVE_MIG_SUPPORT -I. -o gpu_nvml.so \
//		src/plugins/gpu/nvml/gpu_nvml.c src/plugins/gpu/common/gpu_common.c
const nvmlPlugin = "DCM_SLURM_NVML"

// TestSlurmMIG uses the printed GRES lines on a node with GPUs of both vendors, with the real slurmctld and
// slurmd.
func TestSlurmMIG(t *testing.T) {
	if os.Getenv("DCM_SLURM") == "" {
		t.Skip("Slurm is tried by make test-slurm, which sets DCM_SLURM")
	}
	requireContainers(t)
	lib, err := standin.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	seed := slurmSeed()
	maps.Copy(seed, driverless())
	maps.Copy(seed, driverlessNVIDIA())
	seed[nodeless] = e2e.File{}
	m := nvidiaNode(t, e2e.Slurm(), buildProduct(t), "mi300x-4+h100-4", lib, seed)
	m.knob("nodes /dev 509")
	m.put(settings, slurmMIG)
	m.run("systemctl restart dcm; dcm use first")
	for _, s := range []struct {
		name string
		run  func(machine)
	}{
		{"jobs get instances", slurmInstances},
		{"slurmd finds the instances with NVML", slurmNVML},
		{"gres.conf after a change", slurmWritten},
	} {
		if !t.Run(s.name, func(t *testing.T) { s.run(m.in(t)) }) {
			break
		}
	}
}

const (
	threeG = "gpu:h100_80gb_hbm3_3g.40gb"
	oneG   = "gpu:h100_80gb_hbm3_1g.10gb"
)

// slurmInstances: slurmctld and slurmd accept the printed lines, and jobs get instances.
func slurmInstances(m machine) {
	said := m.run("dcm slurm-conf --gres")
	m.t.Log(said)
	parts := strings.Split(said, "\n\n")
	if len(parts) != 4 {
		m.t.Fatalf("%d parts, want gres.conf twice, slurm.conf and cgroup.conf", len(parts))
	}
	m.put("/etc/slurm/gres.conf", parts[0]+"\n")
	m.addSlurmConf(parts[2] + "\n")
	m.run("systemctl restart slurmctld slurmd")
	// A node with GPUs of both vendors has the variables of both, with the same numbers.
	for _, request := range []string{"gpu:spx_nps1:2", threeG + ":2", oneG + "+me:1", "gpu:h100_80gb_hbm3:2", oneG + ":6"} {
		got := m.run(`srun --gres="$1" env | sed -n 's/^\(CUDA\|ROCR\)_VISIBLE_DEVICES=//p'`, request)
		first, second, _ := strings.Cut(got, "\n")
		if _, number, _ := strings.Cut(strings.TrimPrefix(request, "gpu:"), ":"); first != second || fmt.Sprint(strings.Count(first, ",")+1) != number {
			m.t.Errorf("%s: environment of the job: got %s", request, got)
		}
	}
	if r := m.try("timeout 60 srun --immediate=10 --gres=" + threeG + ":3 true"); r.Code == 0 {
		m.t.Error("a job got three of two instances")
	}
	m.t.Log(m.run("slurmd -G 2>&1; scontrol show node gpu1 | grep -i gres"))
}

// slurmNVML: slurmd with NVML accepts the printed lines, and jobs get the UUIDs of instances.
func slurmNVML(m machine) {
	plugin := os.Getenv(nvmlPlugin)
	if plugin == "" {
		m.t.Skipf("AutoDetect=nvml needs a plugin that Debian does not have; %s names one", nvmlPlugin)
	}
	m.put("/usr/lib/x86_64-linux-gnu/slurm-wlm/gpu_nvml.so", string(only(m.t, plugin)))
	gres, _, _ := strings.Cut(m.run("dcm slurm-conf --gres --nvml"), "\n\n")
	m.t.Log(gres)
	m.put("/etc/slurm/gres.conf", gres+"\n")
	m.run("systemctl restart slurmctld slurmd")
	m.t.Log(m.run("slurmd -G 2>&1; scontrol show node gpu1 | grep -i gres; sinfo -R"))
	for _, request := range []string{threeG + ":2", oneG + "+me:1", oneG + ":6"} {
		got := m.run(`srun --gres="$1" env | sed -n 's/^CUDA_VISIBLE_DEVICES=//p'`, request)
		_, number, _ := strings.Cut(strings.TrimPrefix(request, "gpu:"), ":")
		if fmt.Sprint(strings.Count(got, "MIG-")) != number {
			m.t.Errorf("%s: CUDA_VISIBLE_DEVICES is %s", request, got)
		}
	}
	if r := m.try("timeout 60 srun --immediate=10 --gres=" + threeG + ":3 true"); r.Code == 0 {
		m.t.Error("a job got three of two instances")
	}
	m.run("srun --gres=gpu:h100_80gb_hbm3:2 true; srun --gres=gpu:spx_nps1:4 true")
	m.run("dcm slurm-conf --gres --write /etc/slurm/gres.conf")
}

// slurmWritten: a client unit keeps gres.conf right after a change, and drains the node if slurm.conf has
// other GRES.
func slurmWritten(m machine) {
	commands := walk(m.t, "dcm-slurm.7", "Keeping gres.conf")
	if len(commands) != 3 {
		m.t.Fatalf("commands of the manual: %q", commands)
	}
	for _, command := range commands {
		m.t.Logf("$ %s\n%s", command, m.run(`sudo() { "$@"; }; `+command))
	}
	before := m.run("cat /etc/slurm/gres.conf")
	m.run("dcm use second")
	after := m.run("cat /etc/slurm/gres.conf")
	if before == after || strings.Count(before, "MultipleFiles=") != strings.Count(after, "MultipleFiles=") {
		m.t.Errorf("gres.conf after a change:\n%s\nbefore:\n%s", after, before)
	}
	// slurmd has the device nodes of all instances.
	m.run(`for node in $(sed -n 's/.*MultipleFiles=\([^ ]*\).*/\1/p' /etc/slurm/gres.conf | tr , ' '); do [ -c $node ]; done`)
	m.run("srun --gres=" + threeG + ":2 true; srun --gres=" + oneG + ":6 true")
	if state := m.node("State"); strings.Contains(state, "DRAIN") {
		m.t.Errorf("the node is %s: %s", state, m.node("Reason"))
	}

	m.run("dcm use third")
	// slurmd reports fewer GRES than slurm.conf has, so slurmctld drains the node again when slurmd has
	// registered, with its own reason.
	m.run("timeout 60 sh -c 'until scontrol show node gpu1 | grep \"Reason=gres/gpu count reported lower than configured\"; do sleep 0.2; done'")
	state := m.node("State")
	m.t.Logf("%s: %s", state, m.node("Reason"))
	want := "drained gpu1: dcm: slurm.conf needs Gres=gpu:spx_nps1:4," + threeG + ":8"
	if said := m.run("journalctl --boot --unit=dcm-slurm-gres --output=cat"); !strings.Contains(state, "DRAIN") || !strings.Contains(said, want) {
		m.t.Errorf("the node is %s, and dcm has said %q, want %s", state, said, want)
	}
	m.run(`sed -i "/^NodeName=gpu1 /s/ Gres=[^ ]*/ Gres=gpu:spx_nps1:4,$1:8/" /etc/slurm/slurm.conf; systemctl restart slurmctld slurmd`, threeG)
	m.run("scontrol update NodeName=gpu1 State=RESUME; srun --gres=" + threeG + ":8 true")

	m.put("/etc/slurm/gres.conf", "NodeName=gpu1 Name=gpu File=/dev/nvidia0\n")
	if r := m.try("dcm slurm-conf --gres --write /etc/slurm/gres.conf"); r.Code == 0 || !strings.Contains(r.Stderr, "has other lines than those of dcm") {
		m.t.Errorf("a foreign gres.conf: exit status %d, %s", r.Code, r.Stderr)
	}
}
