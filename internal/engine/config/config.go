package config

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"dcm/internal/engine/config/rule"
	"dcm/internal/engine/config/source"
	"dcm/internal/gpu/partition"
)

// None is the name that selects no profile, on the kernel command line and in the files.
const None = rule.None

// Config is the validated sum of all layers.
type Config struct {
	Profile       partition.Profile // the selected one; zero if Selected is ""
	Selected      string            // "": dcm leaves the GPUs alone
	Source        string            // what selected it, "/etc/dcm/dcm.toml:7" or "kernel command line"; "" if nothing says
	Persistent    string            // what the files that outlive a boot select; Selected, if nothing overrides them
	LastingSource string
	Ended         string // in words, of a selection until reboot that does not count any more; [selection.ClearRuntime] removes it

	Profiles map[string]partition.Profile // all that are defined
	Unusable map[string]*source.Errors    // profiles of the Kubernetes form that are left out
	Origin   map[string]string            // profile → file:line of its last definition

	Clients []string // unit names with their suffix, in the order given, without duplicates
	Require bool     // clients do not start unless the profile was applied

	Discover Discover // what becomes of services that hold a GPU and are not listed

	OnFailure     OnFailure
	ReloadDriver  bool          // a memory mode may reload the driver
	AtLoad        bool          // the driver comes up in the profile's compute mode
	DeviceTimeout time.Duration // how long the driver may take to bring its GPUs up
	Reboot        Reboot

	Drift Drift

	Backend Backend
	Library string // path of libamd_smi; "": the usual places
	Count   int    // how many GPUs there should be to manage; 0: as many as at the last success

	Reservations []Reservation
	Leases       Leases
	Observers    []string // services that look at all partitions, guarded ones too

	Metrics string // directory for the file of metrics; "": the usual one, if it is there; [Off]

	Agent bool // programs on the host may select profiles, see [selection.Propose]

	Warnings []string // things accepted that look like mistakes, each with file:line
}

// OnFailure says what becomes of GPUs already changed when another one fails for
// good.
type OnFailure string

// The values of apply.on-failure.
const (
	Rollback OnFailure = "rollback"
	Keep     OnFailure = "keep"
)

// Reboot says whether dcm may reboot the host for a change that cannot take
// effect otherwise.
type Reboot string

// The values of apply.reboot.
const (
	Never Reboot = "never"
	Once  Reboot = "once"
)

// Drift says what becomes of GPUs that somebody else has changed.
type Drift string

// The values of daemon.drift.
const (
	Repair Drift = "repair" // as if the configuration had changed
	Report Drift = "report" // they are left so
)

// Backend says what sets the modes.
type Backend string

// The values of gpu.backend.
const (
	Auto   Backend = "auto"   // sysfs, with names and serials from libamd_smi where it is there
	Sysfs  Backend = "sysfs"  // never load the library
	AMDSMI Backend = "amdsmi" // set through the library too
)

func Defaults() *Config {
	return &Config{
		Profiles:      make(map[string]partition.Profile),
		Origin:        make(map[string]string),
		Discover:      Suggest,
		OnFailure:     Rollback,
		ReloadDriver:  true,
		DeviceTimeout: time.Minute,
		Reboot:        Never,
		Drift:         Repair,
		Backend:       Auto,
		Leases:        Leases{Shares: 1},
	}
}

// Names lists the profiles that are defined, in lexical order.
func (c *Config) Names() []string { return slices.Sorted(maps.Keys(c.Profiles)) }

// Lookup returns a profile by name, a defined one or one of [partition.Predefined]. The error suggests one that is spelled
// nearly so, and lists all.
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
	f := rule.NoProfile(name, c.Names())
	return partition.Profile{}, fmt.Errorf("%q: %s", name, f)
}

// Available lists the profiles that are defined, and those that need no definition, as far
// as one of the GPUs can have them.
func (c *Config) Available(gpus []partition.GPU) []string {
	all := append(c.Names(), partition.PredefinedNames(gpus)...)
	if c.Selected != "" {
		all = append(all, c.Selected)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
