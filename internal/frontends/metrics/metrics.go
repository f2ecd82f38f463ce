// Package metrics renders what dcm knows for node_exporter's textfile collector, and
// puts it where the collector finds it. It knows the account and no device, and
// nothing of it is kept between two writes.
//
// Prometheus' own library is not used: for a few gauges in a file it links an HTTP
// server and TLS into a daemon that has no network.
package metrics

import (
	"maps"
	"runtime"
	"slices"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/status"
)

// Render returns the metrics in the text format that node_exporter's textfile
// collector reads. alive is when the daemon was; zero where it does not write at
// intervals.
func Render(a status.Account, alive time.Time) []byte {
	var e exposition
	e.state(a)
	if !alive.IsZero() {
		e.gauge("daemon_alive_timestamp_seconds", "When the daemon was alive; told anew each minute, whatever happens.").set(float64(alive.Unix()))
	}
	e.gpus(a)
	e.reserved(a)
	if a.LastRun != nil {
		e.run(*a.LastRun)
		e.phases(a.Restart, *a.LastRun)
	}
	return e.text()
}

func (e *exposition) state(a status.Account) {
	e.gauge("build_info", "A metric with the constant value 1, labelled with the version of dcm and of the Go it was built with.", "version", "goversion").
		set(1, a.DCM, runtime.Version())
	name := a.Profile.InForce
	if name == "" {
		name = "none" // which no profile can be called
	}
	e.gauge("profile_info", "The profile in force and what selected it; profile is none if none is.", "profile", "source").
		set(1, name, a.Profile.Source)
	e.gauge("health", "How the host is: 0 in order, 1 a warning, 2 an alarm, 3 unknown; see dcm-account(5).").
		set(float64(a.Health.Code))
	e.gauge("health_info", "The state that dcm_health stands for.", "state").
		set(1, string(a.Health.State))
	e.gauge("in_sync", "Whether the GPUs, all that there should be, are as the profile in force says, or none is selected.").
		set(truth(a.Health.InSync))
	e.gauge("config_last_load_successful", "Whether the configuration on disk is the one in force.").
		set(truth(a.Profile.Broken == ""))
	missing, way := 0, 0
	for _, c := range a.Clients {
		if !c.Back {
			missing++
		}
	}
	e.gauge("clients_not_back", "Client units that were active before the last restart and are not active now.").
		set(float64(missing))
	if a.ConfinementKnown() {
		e.gauge("units_unconfined", "Units with partitions that systemd does not confine to them; absent if systemd did not answer.").
			set(float64(len(a.Unconfined)))
	}
	for _, h := range a.Holders {
		if h.InWay {
			way++
		}
	}
	e.gauge("blocked", "Whether the profile in force waits for somebody to let go of the GPUs.").
		set(truth(way > 0 || a.Health.State == status.Held))
	e.gauge("blocking_processes", "The processes that it waits for, as far as they can be seen.").
		set(float64(way))
	if retry := a.Daemon.Retry; !retry.IsZero() {
		e.gauge("next_try_timestamp_seconds", "When the profile in force is tried again, if nothing happens before.").
			set(float64(retry.Unix()))
	}
}

func (e *exposition) gpus(a status.Account) {
	n := 0
	info := e.gauge("gpu_mode_info", "The partition modes of a GPU, by its PCI address.", "gpu", "model", "compute", "memory")
	count := e.gauge("gpu_partitions", "Into how many partitions a GPU is divided.", "gpu")
	for _, g := range a.GPUs {
		if !g.Managed() {
			continue
		}
		n++
		info.set(1, g.Address, g.Model, g.Mode.Compute, g.Mode.Memory)
		count.set(float64(g.Partitions), g.Address)
	}
	e.gauge("gpus", "How many GPUs there are to manage.").set(float64(n))
	e.gauge("gpus_expected", "How many there should be; 0 if nobody can say.").set(float64(a.Expected.GPUs))
}

func (e *exposition) run(r runstate.Run) {
	runs := e.counter("runs_total", "Runs of dcm-apply.service since the boot, by how they ended.", "result")
	// Each from the start, so that a first failure is an increase.
	for _, result := range runstate.Results() {
		runs.set(float64(r.Totals.Runs[result]), string(result))
	}
	if t := r.Totals.Succeeded; !t.IsZero() {
		e.gauge("last_success_timestamp_seconds", "When the last run ended after which the GPUs were as selected.").
			set(float64(t.UnixNano()) / 1e9)
	}
	if !r.Finished.IsZero() {
		e.gauge("last_run_duration_seconds", "How long the last run of dcm-apply.service took.").
			set(r.Finished.Sub(r.Started).Seconds())
	}
}

func (e *exposition) phases(restart runstate.Restart, r runstate.Run) {
	phases := e.gauge("last_run_phase_seconds", "How long a phase of the last run took: stop of the clients, reload of the driver, switch of the compute modes, start of the clients. A phase that there was not is left out.", "phase")
	all := Phases(restart, r)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		phases.set(all[name].Seconds(), name)
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
