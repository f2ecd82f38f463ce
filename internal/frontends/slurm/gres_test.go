package slurm

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

func amd(kind, file string) Device {
	return Device{Type: kind, Files: []string{file}, Flags: AMDFlags}
}

// mixed is a node with four partitions of AMD, a whole GPU of NVIDIA and two MIG instances.
func mixed() []Device {
	var list []Device
	for i := range 4 {
		list = append(list, amd("cpx", fmt.Sprintf("/dev/dri/renderD%d", 128+i)))
	}
	for i := range list[2:] {
		list[2+i].Cores = "96-191"
	}
	return append(list, Device{Type: "h100_80gb_hbm3", Files: []string{"/dev/nvidia0"}, Flags: NVIDIAFlags},
		Device{Type: "h100_80gb_hbm3_3g.40gb", Files: []string{"/dev/nvidia1", "/dev/nvidia-caps/nvidia-cap12", "/dev/nvidia-caps/nvidia-cap13"}, Flags: NVIDIAFlags},
		Device{Type: "h100_80gb_hbm3_3g.40gb", Files: []string{"/dev/nvidia1", "/dev/nvidia-caps/nvidia-cap21", "/dev/nvidia-caps/nvidia-cap22"}, Flags: NVIDIAFlags})
}

const amdLines = `
NodeName=gpu1 Name=gpu Type=cpx File=/dev/dri/renderD[128-129] Flags=amd_gpu_env,nvidia_gpu_env
NodeName=gpu1 Name=gpu Type=cpx File=/dev/dri/renderD[130-131] Flags=amd_gpu_env,nvidia_gpu_env Cores=96-191`

const conf = `# gres.conf, on this node. A note
` + mixedCondition + `
NodeName=gpu1 AutoDetect=off` + amdLines + `
NodeName=gpu1 Name=gpu Type=h100_80gb_hbm3 File=/dev/nvidia0 Flags=amd_gpu_env,nvidia_gpu_env
# MIG instances: needs ConstrainDevices=yes, and jobs with one instance a task
NodeName=gpu1 Name=gpu Type=h100_80gb_hbm3_3g.40gb MultipleFiles=/dev/nvidia1,/dev/nvidia-caps/nvidia-cap12,/dev/nvidia-caps/nvidia-cap13 Flags=amd_gpu_env,nvidia_gpu_env
NodeName=gpu1 Name=gpu Type=h100_80gb_hbm3_3g.40gb MultipleFiles=/dev/nvidia1,/dev/nvidia-caps/nvidia-cap21,/dev/nvidia-caps/nvidia-cap22 Flags=amd_gpu_env,nvidia_gpu_env`

const rest = `# slurm.conf, on all hosts; add the settings of the commented line to the node's existing line
GresTypes=gpu
#AccountingStorageTRES=gres/gpu,gres/gpu:cpx,gres/gpu:h100_80gb_hbm3,gres/gpu:h100_80gb_hbm3_3g.40gb   # with slurmdbd only
#NodeName=gpu1 Gres=gpu:cpx:4,gpu:h100_80gb_hbm3:1,gpu:h100_80gb_hbm3_3g.40gb:2
TaskPlugin=task/cgroup,task/affinity

# cgroup.conf, on this node: with task/cgroup a job can open only its own partitions
ConstrainDevices=yes
`

const nvmlLines = mixedCondition + `
# MIG instances: needs a slurmd with gpu_nvml.so; AutoDetect=nvidia finds none
NodeName=gpu1 AutoDetect=nvml` + amdLines

func TestGres_MixedHost(t *testing.T) {
	commented := strings.ReplaceAll(nvmlLines, "\nNodeName", "\n#NodeName")
	want := conf + "\n\n# gres.conf instead, as dcm slurm conf --gres --nvml prints it\n" + commented + "\n\n" + rest
	g := Gres{Node: "gpu1", Note: "A note", Devices: mixed()}
	if d := cmp.Diff(want, g.Lines()); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if d := cmp.Diff(conf+"\n", g.Conf()); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	g.NVML = true
	if d := cmp.Diff("# gres.conf, on this node. A note\n"+nvmlLines+"\n\n"+rest, g.Lines()); d != "" {
		t.Errorf("with NVML (-want +got)\n%s", d)
	}
}

func TestGres_AMD(t *testing.T) {
	g := Gres{Node: "gpu1", Note: "A note", Devices: []Device{amd("cpx", "/dev/dri/renderD128"), amd("cpx", "/dev/dri/renderD129"),
		amd("cpx", "/dev/dri/renderD140"), amd("spx", "/dev/dri/renderD141"), amd("cpx", "/dev/odd")}}
	const want = `# gres.conf, on this node. A note
# types that alternate: the numbers that jobs get are right only with ConstrainDevices=yes and task/cgroup
NodeName=gpu1 AutoDetect=off
NodeName=gpu1 Name=gpu Type=cpx File=/dev/dri/renderD[128-129] Flags=amd_gpu_env
NodeName=gpu1 Name=gpu Type=cpx File=/dev/dri/renderD140 Flags=amd_gpu_env
NodeName=gpu1 Name=gpu Type=spx File=/dev/dri/renderD141 Flags=amd_gpu_env
NodeName=gpu1 Name=gpu Type=cpx File=/dev/odd Flags=amd_gpu_env

# slurm.conf, on all hosts; add the settings of the commented line to the node's existing line
GresTypes=gpu
#AccountingStorageTRES=gres/gpu,gres/gpu:cpx,gres/gpu:spx   # with slurmdbd only
#NodeName=gpu1 Gres=gpu:cpx:4,gpu:spx:1
TaskPlugin=task/cgroup,task/affinity

# cgroup.conf, on this node: with task/cgroup a job can open only its own partitions
ConstrainDevices=yes
`
	if d := cmp.Diff(want, g.Lines()); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func TestGres_Slinky(t *testing.T) {
	const want = `# values.yaml of Slinky's chart "slurm": one gres.conf for all nodes with these GPUs and this profile
configFiles:
  gres.conf: |
    # GPUs of two vendors: jobs get the variables of both; needs ConstrainDevices=yes
    # MIG instances: needs a slurmd with gpu_nvml.so; AutoDetect=nvidia finds none
    AutoDetect=nvml
    Name=gpu Type=cpx File=/dev/dri/renderD128 Flags=amd_gpu_env,nvidia_gpu_env
---
# values.yaml of Slinky's chart "slurm": replace gpu by the name of your NodeSet
nodesets:
  gpu:
    extraConfMap:
      Gres: ["gpu:cpx:1", "gpu:a100_3g.40gb:1"]
`
	g := Gres{Node: "gpu1", NVML: true, Devices: []Device{amd("cpx", "/dev/dri/renderD128"), {Type: "a100_3g.40gb", Files: []string{"/dev/nvidia0", "/dev/x"}, Flags: NVIDIAFlags}}}
	if d := cmp.Diff(want, g.Slinky()); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

// With NVML, slurmd accepts a type that is a substring of its own name of the device.
func TestTypeOf(t *testing.T) {
	for _, test := range []struct{ name, profile, slurmd, want string }{
		{"NVIDIA A100-SXM4-40GB", "3g.20gb", "nvidia_a100_3g.20gb", "a100_3g.20gb"},
		{"NVIDIA H100 80GB HBM3", "1g.10gb+me", "nvidia_h100_80gb_hbm3_1g.10gb+me", "h100_80gb_hbm3_1g.10gb+me"},
		{"NVIDIA H100 80GB HBM3", "1c.3g.40gb", "nvidia_h100_80gb_hbm3_1c.3g.40gb", "h100_80gb_hbm3_1c.3g.40gb"},
		{"NVIDIA A100-SXM4-40GB", "", "nvidia_a100-sxm4-40gb", "a100-sxm4-40gb"},
	} {
		if got := TypeOf(test.name, test.profile); got != test.want || !strings.Contains(test.slurmd, got) {
			t.Errorf("%s %s: %s, want %s", test.name, test.profile, got, test.want)
		}
	}
}

func TestIsGres(t *testing.T) {
	g := Gres{Node: "gpu1", Devices: mixed()}
	for text, want := range map[string]bool{"": true, g.Conf(): true, "NodeName=gpu1 Name=gpu File=/dev/x\n": false} {
		if IsGres(text) != want {
			t.Errorf("%q: want %v", text, want)
		}
	}
}

func TestCheckGres(t *testing.T) {
	g := Gres{Node: "gpu1", Devices: mixed()}
	const want = "update NodeName=gpu1 State=DRAIN Reason=dcm: slurm.conf needs Gres=gpu:cpx:4,gpu:h100_80gb_hbm3:1,gpu:h100_80gb_hbm3_3g.40gb:2"
	_, reason, _ := strings.Cut(want, "Reason=")
	const counts = "gpu:cpx:4,gpu:h100_80gb_hbm3:1,gpu:h100_80gb_hbm3_3g.40gb:2"
	const resume = "update NodeName=gpu1 State=RESUME"
	for _, test := range []struct{ name, gres, registered, reason, want string }{
		{"the same in another order", "gpu:h100_80gb_hbm3_3g.40gb:2(S:0-1),gpu:cpx:4(S:0,1),gpu:h100_80gb_hbm3:1", "", "", ""},
		{"with another resource", "license:2,gpu:cpx:4,gpu:h100_80gb_hbm3:1,gpu:h100_80gb_hbm3_3g.40gb:2", "", "", ""},
		{"another number", "gpu:cpx:8,gpu:h100_80gb_hbm3:1,gpu:h100_80gb_hbm3_3g.40gb:2", "", "", want},
		{"none", "(null)", "", "", want},
		{"drained for it", "(null)", "", reason, ""},
		{"drained by an administrator", "(null)", "", "fan 3 broken, ticket 4711", ""},
		{"drained by slurmctld", "(null)", "", "gres/gpu count reported lower than configured (4 < 8)", want},
		{"slurmd registers after the reload", "gpu:cpx:1", counts, "gres/gpu count reported lower than configured (4 < 8)", want + "; " + resume},
		{"slurm.conf was changed", counts, "", reason, resume},
		{"partitions again", counts, "", "dcm: no partition has a device node of its own", resume},
		{"drained by an administrator meanwhile", counts, "", "fan 3 broken, ticket 4711", ""},
		{"drained for its features", counts, "", "dcm: the GPUs match no feature", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctld := slurmctld{active: "x", gres: test.gres, registered: test.registered, reason: test.reason}
				err := Controller{NodeName: "gpu1", Run: ctld.run}.CheckGres(t.Context(), g, func(string) {})
				if got := strings.Join(ctld.updates, "; "); err != nil || got != test.want {
					t.Errorf("%v, %q, want %q", err, got, test.want)
				}
			})
		})
	}
	broken := errors.New("scontrol: Unable to contact slurm controller")
	ctld := slurmctld{broken: broken}
	if err := (Controller{NodeName: "gpu1", Run: ctld.run}).CheckGres(t.Context(), g, func(string) {}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}
