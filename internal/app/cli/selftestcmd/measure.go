package selftestcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"dcm/internal/app/cli/client"
	"dcm/internal/app/plan"
	"dcm/internal/app/selftest"
	"dcm/internal/engine/apply"
	"dcm/internal/engine/config"
	"dcm/internal/engine/daemon"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/status"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// reload is the time of a driver reload, for the kernel's log.
type reload struct {
	to          string // the mode
	from, until time.Time
}

// test is a running self-test.
type test struct {
	host   *host.Host
	config *config.Config
	facts  selftest.Facts
	result selftest.Result

	emit     func(event)
	out      io.Writer                             // for an archive on standard output
	was      map[partition.Address]partition.Shape // how the GPUs were found
	units    map[partition.Address]int             // compute units of the GPUs, as found
	provoked map[partition.Vendor]bool
	modes    int // that were tested
	wrong    int // of them

	names    names
	reloads  []reload
	profiles []byte // the profiles that were applied
}

func newTest(ctx context.Context, h *host.Host, cfg *config.Config, began time.Time, emit func(event)) *test {
	e := &test{host: h, config: cfg, emit: emit, facts: make(selftest.Facts), was: make(map[partition.Address]partition.Shape),
		units: make(map[partition.Address]int), provoked: make(map[partition.Vendor]bool)}
	e.result = selftest.Result{Version: selftest.Version, Program: h.Version, Began: began, Libraries: []string{}, Runs: []selftest.Timing{}}
	if h.Here() {
		for _, l := range host.Libraries(ctx, h) {
			e.result.Libraries = append(e.result.Libraries, l.Name+": "+l.State)
		}
	}
	return e
}

func gpusOf(ctx context.Context, h *host.Host, cfg *config.Config) ([]partition.GPU, error) {
	devices, err := host.OpenNode(h, cfg).Devices(ctx)
	if len(devices) > 0 {
		err = nil // a GPU that cannot be read is reported and not changed
	}
	return gpu.Partitionable(devices), err
}

func (e *test) check(c ...selftest.Check) { e.result.Checks = append(e.result.Checks, c...) }

// found reads the GPUs in their initial state, and the facts that do not depend on it.
func (e *test) found(ctx context.Context, powerOff bool) (selftest.Views, error) {
	views, a, err := e.look(ctx, "", nil)
	if err != nil {
		return views, err
	}
	for _, g := range views.GPUs {
		e.was[g.Address] = g.Shape()
	}
	e.result.Kernel, e.result.Boot = a.Host.Kernel, a.Host.Boot
	e.row(selftest.ModeResult{Mode: found}, "")
	e.limits(views)
	e.holders(ctx)
	came := selftest.BootState(e.host, views)
	e.result.Up = came.Up
	last, err := selftest.ReadRecord(e.host)
	if err != nil {
		e.check(selftest.Check{What: "the last self-test", Verdict: selftest.NotSeen, Text: err.Error()})
		return views, nil
	}
	e.check(selftest.Persistence(last, came, powerOff))
	return views, nil
}

// look compares all sources with the expected shapes, or if want is nil, with the shapes that
// dcm reads.
func (e *test) look(ctx context.Context, at string, want map[partition.Address]partition.Shape) (selftest.Views, status.Account, error) {
	views, err := selftest.ReadViews(ctx, e.host, e.config)
	if err != nil {
		return views, status.Account{}, fmt.Errorf("cannot read the GPUs: %w", err)
	}
	if views.Hidden != nil {
		e.check(selftest.Check{At: at, What: "the GPUs", Verdict: selftest.NotSeen, Text: views.Hidden.Error()})
	}
	e.facts.AddGPUs(views.GPUs)
	wanted := selftest.Wanted(views.GPUs, want)
	a, absent := client.AccountWithReason(ctx, e.host)
	e.names.addFrom(a)
	e.check(selftest.CompareView(at, wanted, views.Own)...)
	for _, v := range append(views.Others, viewOf(a, absent)) {
		e.check(selftest.CompareView(at, wanted, v)...)
	}
	e.check(selftest.DeviceNodes(at, views.Nodes), selftest.ModeFiles(at, views.Files))
	e.check(selftest.Siblings(at, views.GPUs, e.units)...)
	e.check(selftest.TopologyIDs(at, views.GPUs)...)
	e.check(selftest.NUMANodes(at, views.GPUs, views.NUMA)...)
	e.check(selftest.MIGProfiles(at, views.GPUs)...)
	return views, a, nil
}

// viewOf is the daemon's view of the GPUs. absent is why the status is not the daemon's, nil
// if it is.
func viewOf(a status.Account, absent error) selftest.View {
	const by = "the daemon's account"
	switch {
	case absent != nil:
		return selftest.View{By: by, Source: selftest.Daemon, Problem: "the daemon does not answer: " + absent.Error()}
	case a.Daemon.Phase == runstate.Starting:
		return selftest.View{By: by, Source: selftest.Daemon, Problem: "the daemon is starting"}
	}
	v := selftest.View{By: by, Source: selftest.Daemon, Modes: make(map[string]string), Parts: make(map[string]int)}
	if err := client.WhyHidden(a, "gpus"); err != nil {
		v.Problem = err.Error()
	}
	for _, g := range a.GPUs {
		if g.Managed() {
			v.Modes[g.Address], v.Parts[g.Address] = g.Mode.String(), g.Partitions
		}
	}
	return v
}

// limits checks the kernel's limit of device nodes.
func (e *test) limits(views selftest.Views) {
	const what = "device numbers"
	minors, err := host.Minors(e.host)
	if err != nil {
		e.check(selftest.Check{What: what, Verdict: selftest.NotSeen, Text: err.Error()})
		return
	}
	var gpus []partition.GPU
	for _, g := range views.GPUs {
		gpus = append(gpus, g.GPU)
	}
	if short := minors.Shortage(gpus); short != nil {
		e.check(selftest.Check{What: what, Verdict: selftest.Wrong, Text: short.Text + "; hint: " + short.Hint})
		return
	}
	e.check(selftest.Check{What: what, Verdict: selftest.Right, Text: fmt.Sprintf("%d DRM devices, the highest minor is %d", len(minors.Cards), minors.Highest)})
}

// holders counts the processes that have a GPU open. It does not name them, since the result
// leaves the host.
func (e *test) holders(ctx context.Context) {
	const what = "processes that have a GPU open"
	found, err := host.Holders(ctx, e.host)
	e.names.addFrom(found)
	if err != nil {
		e.check(selftest.Check{What: what, Verdict: selftest.NotSeen, Text: fmt.Sprintf("%d found; not every process could be scanned", len(found))})
		return
	}
	e.check(selftest.Check{What: what, Verdict: selftest.Noted, Text: fmt.Sprintf("%d (dcm holders lists them)", len(found))})
}

// remember saves the state of the GPUs for a self-test after the next boot.
func (e *test) remember(views selftest.Views) {
	if os.Geteuid() != 0 {
		return
	}
	if err := selftest.WriteRecord(e.host, views); err != nil {
		e.check(selftest.Check{What: "the record for the next self-test", Verdict: selftest.NotSeen, Text: err.Error()})
	}
}

// selftestOptions are the options of dcm support selftest.
type selftestOptions struct {
	read, change, powerOff bool
	archive                string

	within, back      bool
	untilReboot, hold string
}

// file returns the path of the archive.
func (o selftestOptions) file(now time.Time) (string, error) {
	if o.archive == "-" {
		return o.archive, nil
	}
	if o.archive == "" {
		return filepath.Abs("dcm-selftest-" + now.Format("20060102T150405") + ".tar.gz")
	}
	return filepath.Abs(o.archive)
}

// forecast returns what a change would do to units now. Every process that has a GPU open
// blocks it, because a self-test reloads the driver.
func forecast(ctx context.Context, h *host.Host, cfg *config.Config) (daemon.Forecast, error) {
	return plan.Foresee(ctx, h, cfg, apply.Difference{}, client.Holders(client.Account(ctx, h)))
}

func partitionable(ctx context.Context, h *host.Host) (*config.Config, []partition.GPU, error) {
	cfg, err := h.Config()
	if err != nil {
		return nil, nil, err
	}
	gpus, err := gpusOf(ctx, h, cfg)
	if err == nil && len(gpus) == 0 {
		err = errors.New("no partitionable GPU found; see 'dcm gpus'")
	}
	return cfg, gpus, err
}
