package e2e_test

import (
	"strings"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/gpu/partition"
)

// modeProbed: on a node on which no process uses a GPU, the first request shows the driver's check by a process
// of dcm. That process changes no other GPU, and ends.
func modeProbed(m machine) {
	m.run("systemctl start dcm; dcm-sim check gpu; dcm-sim fault --clear; systemctl stop " + strings.Join(workers(3), " ") + "; rm -f " + busyCheck)
	before := m.modes()
	rest := func() {
		m.t.Helper()
		m.backAtRest()
		if diff := cmp.Diff(before, m.modes()); diff != "" {
			m.t.Errorf("modes (-before +after):\n%s", diff)
		}
		m.until("systemctl list-units --all 'dcm-attach-*'; ! systemctl list-units --all --plain --no-legend 'dcm-attach-*' | grep -q . && [ -z \"$(ls /sys/class/kfd/kfd/proc)\" ]")
	}
	m.exits(0, `dcm run --make CPX -n 2 --numa -- sh -c 'echo node=$DCM_NUMA_NODES; grep -h stack /proc/self/numa_maps'`, "node=0", "bind:0")
	if got := m.run("cat " + busyCheck); !strings.Contains(got, `"fact": "gpu"`) {
		m.t.Errorf("stored check: want that of one GPU, got %s", got)
	}
	rest()

	// A driver that checks all GPUs.
	m.run("dcm-sim check node && rm " + busyCheck)
	m.exits(1, "dcm run --make CPX -- true", "dcm-make@mode_")
	rest()
	m.exits(69, "dcm run --make CPX -- true", "older driver")
	m.run("dcm-sim check gpu && rm " + busyCheck + "; systemctl start " + strings.Join(workers(3), " "))
}

// modeRebooted: after a reboot or a power cut during a lease, no lease is left and the GPU is in the mode of the
// profile.
func modeRebooted(m machine) {
	m.put(settings, switchable("DPX"))
	// Neither a process of all GPUs nor the worker of the GPU starts at boot.
	m.run("cd /etc/systemd/system/multi-user.target.wants && rm -f dashboard.service worker@3.service; systemctl stop dashboard; systemctl start dcm && dcm apply && dcm status")
	for _, restart := range []func(){m.reboot, m.powerCut} {
		m.user("--make CPX -n 3")
		if got := m.modes()[switchedGPU].Compute; got != partition.CPX {
			m.t.Fatalf("%s: want CPX, got %s", switchedGPU, got)
		}
		restart()
		m.run(waitFor("dcm status") + " && [ ! -e /dev/dcm-made ] && " + noLeases)
		m.run("systemctl is-active " + strings.Join(workers(3), " "))
		for gpu, mode := range m.modes() {
			want := partition.SPX
			if gpu == switchedGPU {
				want = partition.DPX
			}
			if mode.Compute != want {
				m.t.Errorf("%s after a boot: want %s, got %s", gpu, want, mode.Compute)
			}
		}
		m.exits(0, "dcm run --make CPX -n 8 -- true")
		m.until("ls -R /dev/dcm-made; ! ls /dev/dcm-made | grep -q mode_ && grep -q DPX /sys/bus/pci/devices/" + switchedGPU + "/current_compute_partition")
	}
	m.put(settings, switchable("SPX"))
	m.run("dcm apply && dcm status; systemctl add-wants multi-user.target dashboard worker@3")
}
