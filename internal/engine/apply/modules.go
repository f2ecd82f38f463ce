package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
)

// Modules returns the kernel modules that a run unloads before its first step and loads again after
// its last one, see [gpu.HoldingModule].
func (d Difference) Modules() []string {
	var out []string
	for _, m := range gpu.HoldingModules(d.Steps, d.Devices) {
		out = append(out, m.Name)
	}
	return out
}

// modulesRefusal returns the refusal of a run that may not unload the modules, nil if there is none.
func (d Difference) modulesRefusal() *runstate.Error {
	modules := gpu.HoldingModules(d.Steps, d.Devices)
	if len(modules) == 0 {
		return nil
	}
	return &runstate.Error{
		Text: fmt.Sprintf("MIG can be switched only while %s is unloaded, and reload-driver is false", strings.Join(d.Modules(), ", ")),
		Hint: "set reload-driver = true in [apply], or " + modules[0].Remedy,
	}
}

// modules are the kernel modules that a run unloads and loads again.
type modules struct {
	driver  ModuleLoader
	timeout time.Duration
	rec     *Recorder
}

// unload unloads the modules that would make steps fail. The report has their names before: if the run
// is killed, the next one loads them.
func (k modules) unload(ctx context.Context, d Difference) error {
	for _, m := range gpu.HoldingModules(d.Steps, d.Devices) {
		k.rec.unloads(m.Name)
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.timeout)
		err := k.driver.UnloadModule(within, m.Name)
		cancel()
		if err != nil {
			no := &refusal{err: err, hint: m.Remedy}
			if errors.Is(err, unix.EBUSY) {
				no.err = fmt.Errorf("%w; no visible process uses it, so a text console or display may", err)
			}
			return no
		}
	}
	return nil
}

// load loads the modules that this run or an earlier one has unloaded. If that fails, the report keeps
// their names, so that a later run tries again.
func (k modules) load(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	for _, name := range k.rec.Run().UnloadedModules {
		within, cancel := context.WithTimeout(ctx, k.timeout)
		err := k.driver.LoadModule(within, name)
		cancel()
		if err != nil {
			return &refusal{err: err, hint: "run 'modprobe " + name + "' and see the kernel log; a later run tries again"}
		}
		k.rec.loads(name)
	}
	return nil
}

// finish loads the modules again, whatever the result of the run.
func (k modules) finish(ctx context.Context, result runstate.Result, err error) (runstate.Result, error) {
	failed := k.load(ctx)
	switch {
	case failed == nil:
		return result, err
	case err == nil:
		return runstate.Failed, failed
	}
	return runstate.Failed, fmt.Errorf("%w; %w", err, failed)
}

// DriverUnloaded reports whether the last run of this boot has left the driver or another module
// unloaded.
func DriverUnloaded(last *runstate.Run, boot string, d drivers) bool {
	if !HalfReloaded(last, boot) {
		return false
	}
	return !d.Loaded() || slices.ContainsFunc(last.UnloadedModules, func(name string) bool { return !d.ModuleLoaded(name) })
}

// unloads records a module that the run is about to unload.
func (r *Recorder) unloads(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.run.UnloadedModules, name) {
		r.run.UnloadedModules = append(slices.Clone(r.run.UnloadedModules), name)
	}
	r.log.Info("unloading the kernel module " + name + ", which holds the GPUs; the run loads it again")
	r.out(true)
}

// loads records a module that is loaded again.
func (r *Recorder) loads(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.run.UnloadedModules = slices.DeleteFunc(slices.Clone(r.run.UnloadedModules), func(n string) bool { return n == name })
	r.log.Info("the kernel module " + name + " is loaded")
}
