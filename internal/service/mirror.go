package service

import (
	"context"
	"encoding/json"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"dcm/internal/amdgpu"
	"dcm/internal/apply"
	"dcm/internal/bus"
	"dcm/internal/config"
	"dcm/internal/daemon"
	"dcm/internal/host"
	"dcm/internal/partition"
	"dcm/internal/report"
	"dcm/internal/watch"
)

// mirror shows on the bus what the daemon does. It has a goroutine of its own: the
// daemon neither waits for the bus nor for the look at the GPUs that is shown.
type mirror struct {
	host    *host.Host
	node    *amdgpu.Node
	service *bus.Service
	log     *slog.Logger
	states  chan report.State             // of 1: only the last one is shown
	wanted  chan chan<- struct{}          // closed once what was saved before is shown
	config  atomic.Pointer[config.Config] // in force
	gpus    []bus.GPU                     // as seen last
}

func newMirror(h *host.Host, requests chan<- daemon.Request, log *slog.Logger) *mirror {
	m := &mirror{host: h, node: h.Node(nil), log: log, states: make(chan report.State, 1), wanted: make(chan chan<- struct{})}
	m.service = bus.New(bus.SystemBus, control{h, m.node, requests, m.caughtUp}, log)
	m.config.Store(&config.Config{})
	return m
}

// load is the daemon's way to its settings, overheard. What is in order is handed on to
// the oneshot and the generator, for when it is not any more.
func (m *mirror) load() (daemon.Settings, error) {
	cfg, err := m.host.Config()
	if err != nil {
		return daemon.Settings{}, err
	}
	paths := config.DefaultPaths(m.host.Root)
	if cfg.Ended != "" {
		m.log.Info(cfg.Ended)
		if err := config.EndPassing(paths); err != nil {
			m.log.Warn(err.Error()) // it does not count all the same
		}
	}
	if err := config.HandOn(paths, cfg); err != nil {
		m.log.Warn(err.Error())
	}
	m.config.Store(cfg)
	return settings(m.host, cfg), nil
}

// lastGood is load where that fails, and an earlier daemon has handed something on.
func (m *mirror) lastGood() (daemon.Settings, error) {
	cfg, err := config.LastGood(config.DefaultPaths(m.host.Root))
	if err != nil {
		return daemon.Settings{}, err
	}
	m.config.Store(cfg)
	return settings(m.host, cfg), nil
}

// save writes the daemon's state down, and has it shown. The daemon alone calls it.
func (m *mirror) save(s report.State) error {
	select {
	case <-m.states: // one that has not been shown yet is out of date
	default:
	}
	m.states <- s
	return report.Replace(m.host.Path("run/dcm", report.StateFile), s)
}

// caughtUp returns when all that was saved before is shown, or ctx ends.
func (m *mirror) caughtUp(ctx context.Context) {
	shown := make(chan struct{})
	select {
	case m.wanted <- shown:
	case <-ctx.Done():
		return
	}
	select {
	case <-shown:
	case <-ctx.Done():
	}
}

// run is on the bus until ctx ends.
func (m *mirror) run(ctx context.Context) {
	// The bus's socket is made anew when the bus is started anew. What a policy
	// allows changes with its file.
	dirs := []string{"/run/dbus", "/usr/share/dbus-1/system.d", "/etc/dbus-1/system.d"}
	appeared, err := watch.Files(ctx, dirs, quiet, m.log)
	if err != nil {
		m.log.Warn("a bus that is started later will not be noticed", "error", err)
	}
	up := false
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-m.states:
			m.show(ctx, s)
			if atRest(s.Phase) {
				// Nothing may happen for days. What the work took goes back to the
				// system now, not when the runtime comes to it, which wakes up for it.
				debug.FreeOSMemory()
			}
		case shown := <-m.wanted:
			select {
			case s := <-m.states:
				m.show(ctx, s)
			default:
			}
			close(shown)
		}
		if !up && m.host.Here() {
			up = true
			go m.service.Run(ctx, appeared)
		}
	}
}

// atRest reports whether the daemon has come to a verdict, and now waits.
func atRest(p report.Phase) bool { return p != report.Applying && p != report.Starting }

// lookTimeout is what a look at the GPUs may take that nobody's work depends on.
const lookTimeout = 10 * time.Second

func (m *mirror) show(ctx context.Context, s report.State) {
	// In a run and before the first look the GPUs are somebody else's.
	if atRest(s.Phase) {
		ctx, cancel := context.WithTimeout(ctx, lookTimeout)
		defer cancel()
		if devices, err := m.node.Devices(ctx); err != nil && len(devices) == 0 {
			m.log.Warn("the GPUs shown on the bus are those of the look before", "error", err)
		} else {
			m.gpus = busGPUs(devices, m.config.Load())
		}
	}
	m.service.Publish(m.manager(s), m.gpus)
}

func (m *mirror) manager(s report.State) bus.Manager {
	out := bus.Manager{
		Version: m.host.Version, Selected: s.Profile, Source: s.Source, State: string(s.Phase),
		Since: s.Since, Retry: s.Retry, Profiles: m.config.Load().Names(), Warnings: s.Warnings,
	}
	if s.Phase == report.InSync {
		out.Applied = s.Profile
	}
	if s.Error != nil {
		out.Error, out.Cure = s.Error.Text, s.Error.Cure
	}
	if s.Config != "" {
		out.Problems = strings.Split(strings.TrimSpace(s.Config), "\n")
	}
	for _, c := range s.Clients {
		out.Clients = append(out.Clients, bus.ClientUnit{Unit: c.Unit, Before: c.Before, Now: c.Now, Result: c.Result, Back: c.Back})
	}
	if run, err := report.ReadRun(m.host.Runtime()); err != nil {
		m.log.Warn(err.Error())
	} else if run != nil {
		text, _ := json.Marshal(run) // it was just read from JSON
		out.Report = string(text)
	}
	return out
}

func busGPUs(devices []amdgpu.Device, cfg *config.Config) []bus.GPU {
	var want partition.Layout
	if cfg.Selected != "" {
		// What there is of a layout is shown; what is wrong is the daemon's to tell.
		d, _ := apply.Compare(devices, cfg.Profile)
		want = d.Want
	}
	var out []bus.GPU
	for i, v := range host.Views(devices, want) {
		d := devices[i]
		out = append(out, bus.GPU{
			Address: string(d.Address), Index: int32(v.Index), Model: d.Model, Name: d.Name, Serial: d.Serial, UniqueID: d.UniqueID,
			Compute: string(d.Compute), Memory: string(d.Memory),
			WantedCompute: string(v.Want.Compute), WantedMemory: string(v.Want.Memory), Partitions: uint32(v.Partitions),
			AvailableCompute: texts(d.AvailableCompute), AvailableMemory: texts(d.AvailableMemory),
			RenderNodes: d.RenderNodes, NUMANode: int32(d.NUMA), Driver: d.Driver, Unmanaged: d.Why,
		})
	}
	return out
}

func texts[S ~string](items []S) []string {
	out := make([]string, len(items))
	for i, s := range items {
		out[i] = string(s)
	}
	return out
}
