package e2e_test

import (
	"strings"
)

// memoryAllocation: with Linux 7.1 or later, the allocation of a GPU in use can be set. The driver resets it at each
// switch of the compute mode.
func memoryAllocation(m machine) {
	open := "[profiles.open]\ncompute = \"SPX\"\nmemory = \"NPS1\"\nmemory-allocation = \"all\"\n"
	m.put(settings, eachGPU("same")+open)
	m.run("systemctl reload dcm; dcm use same")
	m.exits(1, "dcm use open", "Linux 7.1")
	m.run("dcm use same && dcm-sim allocation on && systemctl restart dcm")
	m.allocated("8 CAPPING")

	before := m.units(workers()...)
	m.exits(2, "dcm plan open", "set the memory allocation of 8 GPUs from capping to all", "No unit would be restarted.")
	m.run("dcm use open")
	m.applied("open")
	m.allocated("8 ALL")
	m.untouched(before)
	if got := m.run("dcm gpus --json"); strings.Count(got, `"memory_allocation": "all"`) != 16 {
		m.t.Errorf("dcm gpus --json: want all as the mode and the wanted mode of 8 GPUs, got %s", got)
	}

	// Another program resets one GPU. The repair restarts no unit.
	file := m.run("ls -d /sys/bus/pci/devices/*/compute_partition_mem_alloc_mode | tail -1")
	m.run("echo CAPPING >" + file)
	m.await(file, "ALL")
	m.applied("open")
	m.untouched(before)

	// A switch without the key keeps the allocation.
	m.exits(2, "dcm plan third", "to all again, since the driver resets it")
	m.run("dcm use third")
	m.applied("third")
	m.allocated("8 ALL")

	m.put(settings, eachGPU("same"))
	m.run("dcm-sim allocation off && systemctl restart dcm && dcm use same")
	m.applied("same")
}

// allocated checks the memory allocations of all GPUs.
func (m machine) allocated(want string) {
	m.t.Helper()
	if got := m.run("cat /sys/bus/pci/devices/*/compute_partition_mem_alloc_mode | sort | uniq -c | tr -s ' '"); strings.TrimSpace(got) != want {
		m.t.Errorf("memory allocations: got %s, want %s", got, want)
	}
}
