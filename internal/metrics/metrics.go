// Package metrics renders what dcm knows for node_exporter's textfile collector, and
// puts it where the collector finds it. It knows the reports and no device, and
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

	"dcm/internal/partition"
	"dcm/internal/report"
)

// Facts is what the metrics are made of.
type Facts struct {
	State report.State
	Run   *report.Run // the last one of this boot; nil if there was none
	GPUs  []GPU
	Alive time.Time // when the daemon wrote this; zero where it does not write at intervals
}

// GPU is one GPU as it was seen last.
type GPU struct {
	Address    partition.Address
	Model      string
	Mode       partition.Mode
	Partitions int
}

// Render returns the metrics in the text format that node_exporter's textfile
// collector reads.
func Render(f Facts) []byte {
	var e exposition
	e.state(f.State)
	if !f.Alive.IsZero() {
		e.gauge("daemon_alive_timestamp_seconds", "When the daemon was alive; told anew each minute, whatever happens.").set(float64(f.Alive.Unix()))
	}
	e.gpus(f.GPUs)
	if f.Run != nil {
		e.run(*f.Run)
		e.phases(f.State.Restart, *f.Run)
	}
	return e.text()
}

func (e *exposition) state(s report.State) {
	e.gauge("build_info", "A metric with the constant value 1, labelled with the version of dcm and of the Go it was built with.", "version", "goversion").
		set(1, s.Program, runtime.Version())
	name := s.Profile
	if name == "" {
		name = "none" // which no profile can be called
	}
	e.gauge("profile_info", "The selected profile and what selected it; profile is none if none is.", "profile", "source").
		set(1, name, s.Source)
	e.gauge("in_sync", "Whether the GPUs are as the selected profile says, or none is selected.").
		set(truth(s.Phase == report.InSync || s.Phase == report.Idle))
	e.gauge("config_last_load_successful", "Whether the configuration on disk is the one in force.").
		set(truth(s.Config == ""))
	missing := 0
	for _, c := range s.Clients {
		if !c.Back {
			missing++
		}
	}
	e.gauge("clients_not_back", "Client units that were active before the last restart and not active after it.").
		set(float64(missing))
	unseen := s.Error != nil && s.Error.Unseen != nil
	e.gauge("blocked", "Whether the selected profile waits for somebody to let go of the GPUs.").
		set(truth(len(s.Holders) > 0 || unseen))
	e.gauge("blocking_processes", "The processes that it waits for, as far as they can be seen.").
		set(float64(len(s.Holders)))
	if !s.Retry.IsZero() {
		e.gauge("next_try_timestamp_seconds", "When the selected profile is tried again, if nothing happens before.").
			set(float64(s.Retry.Unix()))
	}
}

func (e *exposition) gpus(all []GPU) {
	info := e.gauge("gpu_mode_info", "The partition modes of a GPU, by its PCI address.", "gpu", "model", "compute", "memory")
	count := e.gauge("gpu_partitions", "Into how many partitions a GPU is divided.", "gpu")
	for _, g := range all {
		info.set(1, string(g.Address), g.Model, string(g.Mode.Compute), string(g.Mode.Memory))
		count.set(float64(g.Partitions), string(g.Address))
	}
}

func (e *exposition) run(r report.Run) {
	runs := e.counter("runs_total", "Runs of dcm-apply.service since the boot, by how they ended.", "result")
	// Each from the start, so that a first failure is an increase.
	for _, result := range report.Results() {
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

func (e *exposition) phases(restart report.Restart, r report.Run) {
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
