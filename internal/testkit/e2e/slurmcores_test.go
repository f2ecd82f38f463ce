package e2e_test

import (
	"regexp"
	"slices"
	"strings"
)

// twoSockets gives the node two sockets with four cores of two threads each, which are numbered as Linux
// does: the second threads follow the first ones of all cores.
const twoSockets = `rm -rf /run/system; mkdir -p /run/system/cpu
for file in online possible present; do echo 0-15 >/run/system/cpu/$file; done
for cpu in $(seq 0 15); do
	dir=/run/system/cpu/cpu$cpu/topology core=$((cpu % 8))
	mkdir -p $dir
	echo $((core / 4)) >$dir/physical_package_id
	echo $((core % 4)) >$dir/core_id
	echo $core,$((core + 8)) >$dir/thread_siblings_list
	printf '%04x\n' $((0x0101 << core)) | tee $dir/thread_siblings >$dir/core_cpus
	printf '%04x\n' $((0x0f0f << core / 4 * 4)) | tee $dir/core_siblings >$dir/package_cpus
done
for node in 0 1; do
	mkdir -p /run/system/node/node$node
	echo $((node * 4))-$((node * 4 + 3)),$((node * 4 + 8))-$((node * 4 + 11)) >/run/system/node/node$node/cpulist
	printf '%04x\n' $((0x0f0f << node * 4)) >/run/system/node/node$node/cpumap
	echo "10 32" >/run/system/node/node$node/distance
done
echo 0-1 | tee /run/system/node/online >/run/system/node/possible
mount --bind /run/system /sys/devices/system`

// slurmCores: on a node with two sockets a job gets cores of the socket of its GPU.
func slurmCores(m machine) {
	m.run(twoSockets)
	gres, _, _ := strings.Cut(m.run("dcm slurm-conf --gres"), "\n\n")
	m.t.Log(gres)
	for _, want := range []string{"renderD152 Flags=amd_gpu_env Cores=0-3", "renderD160 Flags=amd_gpu_env Cores=4-7"} {
		if !strings.Contains(gres, want) {
			m.t.Errorf("gres.conf: want %s, got\n%s", want, gres)
		}
	}
	m.put("/etc/slurm/gres.conf", gres+"\n")
	m.run("sed -i '/^NodeName=gpu1 /s/ CPUs=1 / CPUs=16 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 RealMemory=1000 /' /etc/slurm/slurm.conf; systemctl restart slurmctld slurmd")
	m.t.Log(m.run("slurmd -C; slurmd -G 2>&1; scontrol show node gpu1"))
	// The first job has the GPUs of the first socket, so the second one has a GPU of the other.
	first := m.run("sbatch --parsable --gres=gpu:spx_nps1:4 --gres-flags=enforce-binding --mem=10 --cpus-per-task=1 --wrap 'sleep infinity'")
	m.run("until [ $(squeue -ho %T -j " + first + ") = RUNNING ]; do sleep 0.2; done")
	second := m.run("srun --gres=gpu:spx_nps1:1 --gres-flags=enforce-binding --mem=10 --cpus-per-task=1 sh -c 'scontrol show job --details $SLURM_JOB_ID' | grep CPU_IDs=")
	m.t.Log(m.run("scontrol show job --details "+first+" | grep CPU_IDs="), second)
	m.run("scancel " + first)
	cpus := regexp.MustCompile(`CPU_IDs=(\d+)`).FindStringSubmatch(second)
	if !strings.Contains(second, "IDX:4") || cpus == nil || !slices.Contains([]string{"8", "10", "12", "14"}, cpus[1]) {
		m.t.Errorf("second job: want GPU 4 and a core of the second socket, got %s", second)
	}
}
