// Package metrics renders an account for node_exporter's textfile collector and writes the file that
// the collector reads. It must not import a vendor or sysfs, and keeps no state between two writes.
//
// It does not use Prometheus' library, which would link an HTTP server and TLS into a daemon that does
// not use the network.
package metrics

import (
	"maps"
	"runtime"
	"slices"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/status"
)

// Render returns the metrics of an account in the text format of the textfile collector. alive is the
// time of this write. It is zero if the caller does not write periodically. leased are the partition-seconds
// of leases by user; the caller bounds the number of users.
func Render(a status.Account, alive time.Time, leased map[string]float64) []byte {
	var e exposition
	e.state(a)
	if !alive.IsZero() {
		e.gauge("daemon_alive_timestamp_seconds", "When the daemon last wrote the metrics; it does so every minute.").set(float64(alive.Unix()))
	}
	e.gpus(a)
	e.reserved(a)
	e.queue(a.Queue, a.Taken)
	f := e.counter("leased_partition_seconds_total", "Partitions multiplied by the seconds that leases had them since the start of the daemon, by user.", "user")
	for _, user := range slices.Sorted(maps.Keys(leased)) {
		f.set(leased[user], user)
	}
	if a.LastRun != nil {
		e.run(*a.LastRun)
		e.phases(a.Restart, *a.LastRun)
	}
	return e.text()
}

func (e *exposition) queue(waiting []status.Queued, now time.Time) {
	var longest time.Duration
	for _, request := range waiting {
		longest = max(longest, now.Sub(request.Since))
	}
	e.gauge("queue_requests", "Number of requests that wait for a lease.").set(float64(len(waiting)))
	e.gauge("queue_longest_wait_seconds", "How long the oldest of these requests has waited; 0 if none waits.").set(longest.Truncate(time.Second).Seconds())
}

func (e *exposition) state(a status.Account) {
	e.gauge("build_info", "A metric with the constant value 1, labelled with the version of dcm and of the Go it was built with.", "version", "goversion").
		set(1, a.DCM, runtime.Version())
	name := a.Profile.Effective
	if name == "" {
		name = "none" // no profile can have this name
	}
	e.gauge("profile_info", "The effective profile and where it was selected; profile is none if there is none.", "profile", "source").
		set(1, name, a.Profile.Source)
	e.gauge("health", "Health of the host: 0 ok, 1 warning, 2 critical, 3 unknown; see dcm-account(5).").
		set(float64(a.Health.Code))
	e.gauge("health_info", "The state that dcm_health stands for.", "state").
		set(1, string(a.Health.State))
	e.gauge("in_sync", "Whether all expected GPUs match the effective profile; 1 too if no profile is selected.").
		set(boolValue(a.Health.InSync))
	e.gauge("config_last_load_successful", "Whether the configuration on disk is the effective one.").
		set(boolValue(a.Profile.Broken == ""))
	missing, blocking := 0, 0
	for _, c := range a.Clients {
		if !c.Back {
			missing++
		}
	}
	e.gauge("clients_not_back", "Client units that were active before the last restart and are not active now.").
		set(float64(missing))
	without := e.gauge("client_without_gpu", "Clients that had a GPU open before their restart, and have none open now; others are absent.", "unit")
	for _, c := range a.Clients {
		if c.GPU == runstate.NoGPU {
			without.set(1, c.Unit)
		}
	}
	if a.ConfinementKnown() {
		e.gauge("units_unconfined", "Units with partitions that systemd does not confine to them; absent if systemd did not answer.").
			set(float64(len(a.Unconfined)))
	}
	broken := e.gauge("unit_failed", "Units of dcm that have failed; those that have not are absent.", "unit")
	for _, u := range a.FailedUnits() {
		broken.set(1, u.Unit)
	}
	for _, h := range a.Holders {
		if h.InWay {
			blocking++
		}
	}
	e.gauge("blocked", "Whether the effective profile waits for processes that use the GPUs.").
		set(boolValue(blocking > 0 || a.Health.State == status.Held))
	e.gauge("blocking_processes", "Number of visible processes that the effective profile waits for.").
		set(float64(blocking))
	if retry := a.Daemon.Retry; !retry.IsZero() {
		e.gauge("next_try_timestamp_seconds", "When dcm retries the effective profile, unless an event comes first.").
			set(float64(retry.Unix()))
	}
}

func (e *exposition) gpus(a status.Account) {
	n := 0
	info := e.gauge("gpu_mode_info", "The partition modes of a GPU, by its PCI address.", "gpu", "model", "compute", "memory")
	allocation := e.gauge("gpu_memory_allocation_info", "How much of its memory domain a partition of the GPU may allocate: capping (an equal share) or all. Absent before Linux 7.1.", "gpu", "allocation")
	isolation := e.gauge("gpu_isolation", "Whether the driver isolates the processes of each partition of the GPU. Absent if the driver has no such setting.", "gpu")
	change := e.gauge("gpu_profile", "State of the effective profile on a GPU: applied, selected (not applied yet), or left (until the holders have ended). The current state is 1.", "gpu", "state")
	count := e.gauge("gpu_partitions", "Number of partitions of a GPU.", "gpu")
	slots := e.gauge("gpu_free_slots", "Number of memory slots of a dynamic GPU that a further MIG instance can have.", "gpu")
	longest := e.gauge("gpu_free_slots_longest_run", "Length of the longest run of free memory slots of a dynamic GPU, which limits the size of new instances.", "gpu")
	held := e.gauge("gpu_held_memory_bytes", "Memory of a GPU that is in use, and that no process has held for ten seconds.", "gpu")
	for _, g := range a.GPUs {
		if !g.Managed() {
			continue
		}
		n++
		held.set(float64(g.HeldMemory), g.Address)
		info.set(1, g.Address, g.Model, g.Mode.Compute, g.Mode.Memory)
		if g.Mode.Allocation != "" {
			allocation.set(1, g.Address, g.Mode.Allocation)
		}
		if g.Mode.Isolation != "" {
			isolation.set(boolValue(g.Mode.Isolated()), g.Address)
		}
		count.set(float64(g.Partitions), g.Address)
		if g.Free != nil {
			slots.set(float64(g.Free.Slots), g.Address)
			longest.set(float64(g.Free.Longest), g.Address)
		}
		if a.Profile.Effective == "" {
			continue
		}
		for _, state := range []string{"applied", "selected", "left"} {
			change.set(boolValue(state == g.Change()), g.Address, state)
		}
	}
	e.gauge("gpus", "Number of GPUs that dcm manages.").set(float64(n))
	e.gauge("gpus_expected", "Number of GPUs that there should be; 0 if unknown.").set(float64(a.Expected.GPUs))
}

func (e *exposition) run(r runstate.Run) {
	runs := e.counter("runs_total", "Runs of dcm-apply.service since the boot, by result.", "result")
	// Every result is present from the start, so that a first failure is an increase.
	for _, result := range runstate.Results() {
		runs.set(float64(r.Totals.Runs[result]), string(result))
	}
	if t := r.Totals.Succeeded; !t.IsZero() {
		e.gauge("last_success_timestamp_seconds", "End of the last run after which the GPUs matched the profile.").
			set(float64(t.UnixNano()) / 1e9)
	}
	if !r.Finished.IsZero() {
		e.gauge("last_run_duration_seconds", "Duration of the last run of dcm-apply.service.").
			set(r.Finished.Sub(r.Started).Seconds())
	}
}

func (e *exposition) phases(restart runstate.Restart, r runstate.Run) {
	phases := e.gauge("last_run_phase_seconds", "Duration of each phase of the last run: stop of the clients, reload of the driver, switch of the compute modes, start of the clients. Phases that did not occur are absent.", "phase")
	all := Phases(restart, r)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		phases.set(all[name].Seconds(), name)
	}
}

func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
