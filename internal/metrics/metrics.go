// Package metrics writes what dcm knows as a file for node_exporter's textfile
// collector. It knows the reports and no device, and nothing of it is kept between
// two writes: the registry lives as long as one call.
package metrics

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"

	"dcm/internal/partition"
	"dcm/internal/report"
)

// File is the file's name. The collector reads every *.prom of its directory.
const File = "dcm.prom"

// Usual is the collector's directory on Debian (--collector.textfile.directory in
// the defaults of prometheus-node-exporter).
const Usual = "/var/lib/prometheus/node-exporter"

// Facts is what the metrics are made of.
type Facts struct {
	State report.State
	Run   *report.Run // the last one of this boot; nil if there was none
	GPUs  []GPU
}

// GPU is one GPU as it was seen last.
type GPU struct {
	Address    partition.Address
	Model      string
	Mode       partition.Mode
	Partitions int
}

// Write replaces the file in dir atomically.
func Write(dir string, f Facts) error {
	registry := prometheus.NewRegistry()
	s := sink{registry}
	s.state(f.State)
	s.gpus(f.GPUs)
	if f.Run != nil {
		s.run(*f.Run)
		s.phases(f.State.Restart, *f.Run)
	}
	if err := prometheus.WriteToTextfile(filepath.Join(dir, File), registry); err != nil {
		return fmt.Errorf("cannot write the metrics: %w", err)
	}
	return nil
}

// Remove takes the file away, so that no monitoring sees what was true once.
func Remove(dir string) error {
	if err := os.Remove(filepath.Join(dir, File)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove the metrics: %w", err)
	}
	return nil
}

// sink adds metrics to a registry. That a name or a label is not valid, or comes
// twice, is a mistake in this package, and the tests show it.
type sink struct{ registry *prometheus.Registry }

func (s sink) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "dcm", Name: name, Help: help}, labels)
	s.registry.MustRegister(v)
	return v
}

func (s sink) state(st report.State) {
	s.gauge("build_info", "A metric with the constant value 1, labelled with the version of dcm and of the Go it was built with.", "version", "goversion").
		WithLabelValues(st.Program, runtime.Version()).Set(1)
	name := st.Profile
	if name == "" {
		name = "none" // which no profile can be called
	}
	s.gauge("profile_info", "The selected profile and what selected it; profile is none if none is.", "profile", "source").
		WithLabelValues(name, st.Source).Set(1)
	s.gauge("in_sync", "Whether the GPUs are as the selected profile says, or none is selected.").
		WithLabelValues().Set(truth(st.Phase == report.InSync || st.Phase == report.Idle))
	s.gauge("config_last_load_successful", "Whether the configuration on disk is the one in force.").
		WithLabelValues().Set(truth(st.Config == ""))
	missing := 0
	for _, c := range st.Clients {
		if !c.Back {
			missing++
		}
	}
	s.gauge("clients_not_back", "Client units that were active before the last restart and not active after it.").
		WithLabelValues().Set(float64(missing))
}

func (s sink) gpus(all []GPU) {
	info := s.gauge("gpu_mode_info", "The partition modes of a GPU, by its PCI address.", "gpu", "model", "compute", "memory")
	count := s.gauge("gpu_partitions", "Into how many partitions a GPU is divided.", "gpu")
	for _, g := range all {
		info.WithLabelValues(string(g.Address), g.Model, string(g.Mode.Compute), string(g.Mode.Memory)).Set(1)
		count.WithLabelValues(string(g.Address)).Set(float64(g.Partitions))
	}
}

func (s sink) run(r report.Run) {
	runs := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "dcm", Name: "runs_total",
		Help: "Runs of dcm-apply.service since the boot, by how they ended.",
	}, []string{"result"})
	s.registry.MustRegister(runs)
	// Each from the start, so that a first failure is an increase.
	for _, result := range report.Results() {
		runs.WithLabelValues(string(result)).Add(float64(r.Totals.Runs[result]))
	}
	if t := r.Totals.Succeeded; !t.IsZero() {
		s.gauge("last_success_timestamp_seconds", "When the last run ended after which the GPUs were as selected.").
			WithLabelValues().Set(float64(t.UnixNano()) / 1e9)
	}
	if !r.Finished.IsZero() {
		s.gauge("last_run_duration_seconds", "How long the last run of dcm-apply.service took.").
			WithLabelValues().Set(r.Finished.Sub(r.Started).Seconds())
	}
}

func (s sink) phases(restart report.Restart, r report.Run) {
	phases := s.gauge("last_run_phase_seconds", "How long a phase of the last run took: stop of the clients, reload of the driver, switch of the compute modes, start of the clients. A phase that there was not is left out.", "phase")
	for name, took := range Phases(restart, r) {
		phases.WithLabelValues(name).Set(took.Seconds())
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
