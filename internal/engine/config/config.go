package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"dcm/internal/engine/config/rule"
	"dcm/internal/engine/config/source"
	"dcm/internal/gpu/partition"
)

// Config is the validated sum of all layers.
type Config struct {
	Profile       partition.Profile // the selected profile; zero if Selected is ""
	Selected      string            // name of the profile; "": dcm leaves the GPUs unchanged
	Source        string            // place of the selection, "/etc/dcm/dcm.toml:7" or "kernel command line"; "" for none
	Persistent    string            // the profile that the persistent files select
	LastingSource string            // place of the persistent selection
	Ended         string            // message about a selection until reboot that has ended; [selection.EndRuntime] removes it
	Unconfirmed   *Unconfirmed      // the selection, if it ends unless it is confirmed; nil otherwise
	Expired       *Unconfirmed      // the selection that has ended because it was not confirmed; nil otherwise

	Profiles map[string]partition.Profile // the defined profiles
	Unusable map[string]*source.Errors    // profiles of the Kubernetes form that have errors
	Origin   map[string]string            // profile → file:line of its last definition
	Dynamic  []string                     // "FILE:LINE: KEY" of each dynamic group

	Clients []string // unit names with their suffix, in the order given, without duplicates
	Require bool     // clients start only after the profile was applied

	DeclaredClients []Client // the [[client]] tables

	Discover Discover // handling of services that hold a GPU and are not listed

	OnFailure     OnFailure
	UnitOfChange  UnitOfChange
	ReloadDriver  bool          // a memory mode may reload the driver
	AtLoad        bool          // the driver starts in the profile's compute mode
	DeviceTimeout time.Duration // time limit for the driver to initialise its GPUs
	Reboot        Reboot

	Budgets    []Budget
	SettleTime time.Duration // how long restarted units have to stay active before the next round of a change

	Drift Drift

	Backend Backend
	Library string // path of libamd_smi; "": the default paths
	Count   int    // expected number of managed GPUs; 0: as many as at the last success

	Reservations []Reservation // those of the [[client]] tables included
	Leases       Leases

	UserReservations []UserReservation

	Observers []string // services that may open all partitions, exclusive ones included

	Metrics string // directory of the metrics file; "": the default one, if it exists; or [Off]

	Agent bool // programs on the host may select profiles; see [selection.Propose]

	Warnings []string // probable mistakes in accepted files, each with file:line
}

// OnFailure is the handling of changed GPUs after another GPU failed permanently.
type OnFailure string

// The values of apply.on-failure.
const (
	Rollback OnFailure = "rollback"
	Keep     OnFailure = "keep"
)

// Reboot says whether dcm may reboot the host for a change that requires it.
type Reboot string

// The values of apply.reboot.
const (
	Never Reboot = "never"
	Once  Reboot = "once"
)

// Drift is the handling of GPUs that another program changed.
type Drift string

// The values of daemon.drift.
const (
	Repair Drift = "repair" // as if the configuration had changed
	Report Drift = "report" // only reported
)

// Backend is the interface that sets the modes.
type Backend string

// The values of gpu.backend.
const (
	Auto   Backend = "auto"   // sysfs, with names and serial numbers from libamd_smi if it is installed
	Sysfs  Backend = "sysfs"  // never load the library
	AMDSMI Backend = "amdsmi" // set the modes through the library, too
)

// Defaults returns the configuration without any file.
func Defaults() *Config {
	return &Config{
		Profiles:      make(map[string]partition.Profile),
		Origin:        make(map[string]string),
		Discover:      Suggest,
		OnFailure:     Rollback,
		UnitOfChange:  Node,
		ReloadDriver:  true,
		DeviceTimeout: time.Minute,
		Reboot:        Never,
		SettleTime:    defaultSettleDelay,
		Drift:         Repair,
		Backend:       Auto,
		Leases:        Leases{Shares: 1, IdleTime: defaultIdleTimeout, DwellTime: defaultDwellInterval, HeldMemory: LastHeldMemory, Clean: CleanIfSupported},
	}
}

// Names lists the profiles that are defined, in lexical order.
func (c *Config) Names() []string { return slices.Sorted(maps.Keys(c.Profiles)) }

// Lookup returns a profile by name: a defined one, one of [partition.Predefined], or two joined by "+". The error
// suggests a similar name and lists the names.
func (c *Config) Lookup(name string) (partition.Profile, error) {
	if p, ok := c.Profiles[name]; ok {
		return p, nil
	}
	if why := c.Unusable[name]; why != nil {
		return partition.Profile{}, fmt.Errorf("profile %s cannot be selected: %w", source.QuoteShort(name), why)
	}
	if p, ok := partition.Predefined(name); ok {
		return p, nil
	}
	if p, ok, err := c.combined(name); ok {
		return p, err
	}
	return partition.Profile{}, &UnknownProfileError{name, rule.NoProfile(name, c.Names())}
}

// combined returns the profile of the form "A+B", for a host with GPUs of both vendors: A is a profile for one vendor
// and B for the other. ok is false if the name has not this form.
func (c *Config) combined(name string) (p partition.Profile, ok bool, err error) {
	first, second, ok := strings.Cut(name, "+")
	if !ok || strings.Contains(second, "+") {
		return p, false, nil
	}
	a, errA := c.Lookup(first)
	b, errB := c.Lookup(second)
	if errA != nil || errB != nil {
		return p, false, nil
	}
	p, err = partition.Combine(name, a, b)
	return p, true, err
}

// Has reports whether [Config.Lookup] finds a profile.
func (c *Config) Has(name string) bool {
	_, err := c.Lookup(name)
	return err == nil
}

// LookupOn is [Config.Lookup] for known GPUs: its error suggests and lists the profiles that fit them.
func (c *Config) LookupOn(gpus []partition.GPU, name string) (partition.Profile, error) {
	p, err := c.Lookup(name)
	if unknown, ok := errors.AsType[*UnknownProfileError](err); ok && len(gpus) > 0 {
		fitting, _ := c.Fitting(gpus)
		unknown.fault = rule.NoFittingProfile(name, fitting)
	}
	return p, err
}

// UnknownProfileError is the error of a name that no profile has.
type UnknownProfileError struct {
	Name  string
	fault *source.Fault
}

func (e *UnknownProfileError) Error() string { return fmt.Sprintf("%q: %s", e.Name, e.fault) }

// Fitting divides [Config.Available] into the profiles that fit the GPUs and the others. Reservations are not
// considered.
func (c *Config) Fitting(gpus []partition.GPU) (fitting, others []string) {
	for _, name := range c.Available(gpus) {
		p, err := c.Lookup(name)
		if err == nil {
			err = p.Fits(gpus)
		}
		if err == nil {
			fitting = append(fitting, name)
		} else {
			others = append(others, name)
		}
	}
	return fitting, others
}

// Available lists the defined profiles, and the predefined ones that one of the GPUs supports.
func (c *Config) Available(gpus []partition.GPU) []string {
	all := append(c.Names(), partition.PredefinedNames(gpus)...)
	if c.Selected != "" {
		all = append(all, c.Selected)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
