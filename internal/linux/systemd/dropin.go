package systemd

import (
	"fmt"
	"slices"
	"strings"

	"dcm/internal/linux/unitname"
)

const ordered = `# Written by dcm-generator from [clients] in /etc/dcm; see ` + "`man dcm.toml`" + `.
# An edit here is lost at the next daemon-reload.
[Unit]
# This unit starts after the GPUs are partitioned, and stops before that begins.
After=` + unitname.Apply + `
# A restart of ` + unitname.Apply + ` restarts this unit, if active, in the same transaction.
PartOf=` + unitname.Apply + `
`

// With Wants=, a client that restarts by itself would start a failed dcm-apply.service again
// while the other clients run.
const required = `# [clients] require = true: this unit starts only if the profile was applied.
Requires=` + unitname.Apply + `
`

// assertion is for clients that require the profile, if changes concern single GPUs. A client that requires
// [unitname.Change] would be restarted by each change.
const assertion = `# A file there has the GPUs of this unit whose change has failed.
AssertPathExists=!/run/dcm/` + unitname.WithheldDir + `/%s
`

// orderedPerGPU is for clients that a change of single GPUs may leave running. They must not be PartOf= or
// require [unitname.Change]: each change would restart them.
const orderedPerGPU = `# A change of single GPUs restarts this unit only if it concerns it.
After=` + unitname.Change + `
`

// unguarded is for clients without a reservation on hosts with an exclusive one.
const unguarded = `# A change moves exclusive partitions. Until the guard has the new devices, this unit could
# open them, and could not open the old ones.
After=` + unitname.Guard + `
`

// afterApply is for a kubelet, whose device plugins count the partitions once.
const afterApply = `# Written by dcm-generator: [agent] lets programs select profiles; see ` + "`man dcm.toml`" + `.
# An edit here is lost at the next daemon-reload.
[Unit]
# At boot the GPUs are partitioned first. A restart of ` + unitname.Apply + ` does not restart this unit.
After=` + unitname.Apply + `
`

// withoutDefaults is for sockets and paths. By default, systemd starts them before basic.target,
// and every service, dcm-apply.service included, after it. With their default dependencies such
// clients would make an ordering cycle at boot, and systemd would not start them.
const withoutDefaults = `# The default dependencies without Before=sockets.target or paths.target: these are ordered
# before basic.target, and ` + unitname.Apply + ` after it.
DefaultDependencies=no
Requires=sysinit.target
After=sysinit.target
Conflicts=shutdown.target
Before=shutdown.target
`

// Order has the clients and reservations for which the generator writes drop-ins.
type Order struct {
	Clients      []string   // start after dcm-apply.service and are restarted with it
	OrderedAfter []string   // start after dcm-apply.service at boot and are not restarted
	Require      bool       // clients do not start unless the profile was applied
	PerGPU       bool       // a change of single GPUs restarts only the units that it concerns
	Reserved     []Reserved // units with reservations
	Released     []string   // had a reservation; restarted with dcm-reserve.service to be unconfined
	Observers    []string   // services that run in the slice in which all partitions open
	Watching     []string   // all observers, including those with their own Slice=

	Guarded      bool     // there is, or was until now, an exclusive reservation
	HolderSlices []string // of exclusive reservations

	Needs map[string]string // sections that the hardware needs in the drop-ins of units
}

const chosen = `# GPU partitions are reserved for this unit. ` + unitname.Reserve + ` creates the links to them in
# /dev/dcm. In addition, the unit can open only standard pseudo devices.
After=` + unitname.Reserve + ` ` + unitname.Guard + `
`

// guarded starts the guard at boot, before the first holder and for reservations without a unit, and
// after each run and each choice of partitions.
const guarded = `# Written by dcm-generator: partitions are reserved exclusively.
[Unit]
Wants=` + unitname.Guard + `
`

// renewed starts the guard after a stop of the slice: its new cgroup has another number. During
// the host's shutdown, systemd refuses this start.
const renewed = guarded + `# The guard needs the number of the slice's next cgroup.
OnSuccess=` + unitname.Guard + `
`

// The empty DeviceAllow= clears the list of the unit's own file, which may have other partitions.
const confined = `DevicePolicy=` + closed + `
DeviceAllow=
`

// misplaced prevents the start of a unit whose own Slice= is not below dcm.slice.
const misplaced = `# This unit cannot start: its slice is wrong (found %s, want one in ` + unitname.Slice + `).
# Remove that line, or use a slice below: Slice=dcm-NAME.slice
AssertPathExists=/run/dcm/refused-for-its-own-Slice
`

// shared limits the number of instances, and the GPU memory of this one. Its cgroup exists when
// ExecStartPre= runs.
const shared = `# At most %d instances run concurrently.
ExecStartPre=+/usr/libexec/dcm/dcm-guard enter %s %%n
`

// cleans is for units with exclusive partitions. Another unit that cleans could not start while this one stops for a change: its
// start would wait for the stop of dcm-apply.service, and that for the stop of this unit.
const cleans = `# After the service has ended, its partitions are cleaned; see clean in dcm.toml(5).
ExecStopPost=-+/usr/libexec/dcm/dcm-service clean-after %n
`

// makes is for units whose partition does not exist before their start. systemd resolves DeviceAllow= before
// ExecStartPre=, so another unit creates it. That unit stops when nothing requires it.
const makes = `# This unit creates the MIG instance of the reservation, and destroys it after the end.
Requires=%s
After=%[1]s
`

const released = `# Written by dcm-generator: this unit no longer has a reservation. It is restarted
# with ` + unitname.Reserve + `.
[Unit]
After=` + unitname.Reserve + `
PartOf=` + unitname.Reserve + `
`

const observer = `# Written by dcm-generator: [guard] observers names this service; see ` + "`man dcm.toml`" + `.
# An edit here is lost at the next daemon-reload.
[Service]
# Units in this slice can open exclusive partitions.
Slice=` + unitname.ObserverSlice + `
`

// guard returns the drop-in of dcm-guard.service. It starts after the slices in its table, so their
// cgroups exist; each keeps its number until the slice is stopped.
func (o Order) guard() string {
	text := ""
	if len(o.HolderSlices) > 0 {
		text += fmt.Sprintf("[Unit]\nWants=%s\nAfter=%[1]s\n", strings.Join(o.HolderSlices, " "))
	}
	if len(o.Watching) > 0 {
		// A backslash begins an escape in Environment=.
		units := strings.ReplaceAll(strings.Join(o.Watching, " "), `\`, `\\`)
		text += fmt.Sprintf("[Service]\nEnvironment=\"%s=%s\"\n", unitname.ObserversVariable, units)
	}
	if text == "" {
		return ""
	}
	return "# Written by dcm-generator: slices and observers for the guard; see `man dcm-partitions`.\n" + text
}

// Dropins returns the generator's files: text by path below its directory. The drop-in of a
// template applies to all its instances.
func (o Order) Dropins() map[string]string {
	files := make(map[string]string, len(o.Clients))
	for _, unit := range o.OrderedAfter {
		files[file(unit)] = afterApply
	}
	for _, unit := range o.Clients {
		files[file(unit)] = o.client(unit, o.Require)
		if o.Guarded {
			files[file(unit)] += unguarded
		}
		if strings.HasSuffix(unit, ".socket") || strings.HasSuffix(unit, ".path") {
			files[file(unit)] += withoutDefaults
		}
	}
	for unit, text := range o.Needs {
		files[file(unit)] += text
	}
	for _, unit := range o.Released {
		files[file(unit)] += released
	}
	if o.Guarded {
		files[file(unitname.Apply)] += guarded
		if o.PerGPU {
			files[file(unitname.Change)] += guarded
		}
		files[file(unitname.Reserve)] += guarded
		files[file(unitname.Slice)] += renewed
	}
	if text := o.guard(); text != "" {
		files[file(unitname.Guard)] = text
	}
	for _, unit := range o.Observers {
		files[file(unit)] += observer
	}
	for _, r := range o.Reserved {
		listed := slices.Contains(o.Clients, r.Unit) || slices.Contains(o.Clients, unitname.Template(r.Unit))
		files[file(r.Unit)] = o.client(r.Unit, o.Require && listed) + r.text()
	}
	return files
}

// client returns what the drop-ins of all clients have. The drop-in of an instance replaces that of its
// template.
func (o Order) client(unit string, require bool) string {
	text := ordered
	if o.PerGPU {
		text += orderedPerGPU
	}
	if require {
		text += required
	}
	if o.PerGPU && require {
		text += fmt.Sprintf(assertion, unit)
	}
	return text
}

func file(unit string) string { return unit + ".d/" + dropin }

func (r Reserved) text() string {
	var unit, service strings.Builder
	unit.WriteString(chosen)
	if r.Changed {
		unit.WriteString("# The reservation has changed: a restart of dcm-reserve.service restarts this unit.\nPartOf=" + unitname.Reserve + "\n")
	}
	if r.Exclusive || r.Share > 0 {
		unit.WriteString("Wants=" + unitname.Guard + "\n")
	}
	if r.Maker != "" {
		fmt.Fprintf(&unit, makes, r.Maker)
	}
	service.WriteString("[Service]\n")
	self := strings.Replace(r.Unit, "@.", "@%i.", 1) // of a template: each instance
	own := r.Confinement(self)
	switch {
	case r.Slice.Value == "" || r.Slice.Value == unitname.Slice:
		// The guard permits exclusive partitions below this slice.
		fmt.Fprintf(&service, "Slice=%s\n", own.Slice)
	case !r.Slice.Inside(unitname.Slice):
		fmt.Fprintf(&unit, misplaced, r.Slice)
	}
	service.WriteString(confined)
	needed := max(r.Count, 1)
	if r.Whole {
		needed = 1
	}
	for i := range needed {
		fmt.Fprintf(&unit, "AssertPathExists=%s%s/render%d\n", links, r.dir(self), i)
	}
	for _, node := range own.Allow {
		fmt.Fprintf(&service, "DeviceAllow=%s rwm\n", node)
	}
	if r.Share > 0 {
		fmt.Fprintf(&service, shared, r.Share, r.Name)
	}
	if r.Exclusive && r.Share == 0 {
		service.WriteString(cleans)
	}
	return unit.String() + service.String()
}

// checkUnit returns an error for names whose drop-in would not apply to exactly that unit.
func checkUnit(unit string) error {
	switch {
	case !unitname.Valid(unit):
		return fmt.Errorf("%q: not a unit name", unit)
	case unit == unitname.Apply:
		return fmt.Errorf("%s: cannot be its own client", unit)
	}
	// systemd.unit(5): "foo-.service.d" applies to every unit foo-*.service.
	stem, _, _ := strings.Cut(unit[:strings.LastIndexByte(unit, '.')], "@")
	if strings.HasSuffix(stem, "-") {
		return fmt.Errorf("%q: its drop-in would apply to all units with this prefix (want a name without - at the end)", unit)
	}
	return nil
}

// checkUnits returns the valid names, and an error for each other one.
func checkUnits(units []string) (good []string, bad []error) {
	for _, u := range units {
		if err := checkUnit(u); err != nil {
			bad = append(bad, err)
		} else if !slices.Contains(good, u) {
			good = append(good, u)
		}
	}
	return good, bad
}

// checked removes names that are not valid, with an error for each.
func (o Order) checked() (Order, []error) {
	var errs, more []error
	o.Clients, errs = checkUnits(o.Clients)
	o.Observers, more = checkUnits(o.Observers)
	errs = append(errs, more...)
	o.Watching, _ = checkUnits(o.Watching)
	o.Released, more = checkUnits(o.Released)
	errs = append(errs, more...)
	var reserved []Reserved
	for _, r := range o.Reserved {
		if err := checkUnit(r.Unit); err != nil {
			errs = append(errs, err)
			continue
		}
		reserved = append(reserved, r)
	}
	o.Reserved = reserved
	return o, errs
}
