package systemd

import (
	"fmt"
	"slices"
	"strings"

	"dcm/internal/linux/unitname"
)

const ordered = `# Written by dcm-generator from the clients that the configuration in /etc/dcm
# names; see ` + "`man dcm.toml`" + `. An edit here is lost at the next daemon-reload.
[Unit]
# Not before the GPUs are partitioned, at boot as well as in a restart; and this
# unit is stopped before that begins.
After=` + unitname.Apply + `
# A restart of it restarts this unit in the same transaction, if it is active.
PartOf=` + unitname.Apply + `
`

// Wants= would be wrong instead: a client that restarts by itself would run a
// failed dcm-apply.service again under the feet of the other clients.
const required = `# [clients] require = true: not to be started unless the profile was applied.
Requires=` + unitname.Apply + `
`

// unguarded is for a client without a reservation, where something is reserved exclusively.
const unguarded = `# A change moves what is reserved exclusively: until the guard has the new devices, this
# unit could open them, and could not open the old ones.
After=` + unitname.Guard + `
`

// behind is for a kubelet: what it starts counts the partitions once.
const behind = `# Written by dcm-generator: [agent] lets programs select profiles; see ` + "`man dcm.toml`" + `.
# An edit here is lost at the next daemon-reload.
[Unit]
# At boot the GPUs are partitioned first. No restart of that unit restarts this one.
After=` + unitname.Apply + `
`

// late is for what systemd starts before basic.target, which every service is behind,
// dcm-apply.service too: with its default dependencies such a client would make a cycle
// of the boot, and systemd would break it by not starting the client.
const late = `# Not before sockets.target or paths.target, and so basic.target, which ` + unitname.Apply + `
# is behind; the rest of the default dependencies as they are.
DefaultDependencies=no
Requires=sysinit.target
After=sysinit.target
Conflicts=shutdown.target
Before=shutdown.target
`

// Order says which drop-ins the generator writes.
type Order struct {
	Clients   []string   // start after dcm-apply.service and are restarted with it
	Behind    []string   // start after dcm-apply.service at boot and are not restarted
	Require   bool       // clients do not start unless the profile was applied
	Reserved  []Reserved // units with reservations
	Released  []string   // had a reservation; restarted with dcm-reserve.service to be unconfined
	Observers []string   // services that run in the slice in which all partitions open
	Watching  []string   // all observers, including those with a Slice= of their own

	Guarded      bool     // there is, or was until now, an exclusive reservation
	HolderSlices []string // of exclusive reservations

	Needs map[string]string // sections that the hardware needs in the drop-ins of units
}

const chosen = `# Partitions of GPUs are reserved for this unit. Which ones is known when the links
# below /dev/dcm are made, and what it may open beside them is what every unit may.
After=` + unitname.Reserve + ` ` + unitname.Guard + `
`

// guarded has the guard set at boot, before the first holder starts and for what
// is reserved by a name alone, and after each run and each choice.
const guarded = `# Written by dcm-generator: partitions are reserved exclusively.
[Unit]
Wants=` + unitname.Guard + `
`

// renewed has the guard set when the slice was stopped, whose cgroup has another number
// when it is started again. When the host is going down systemd refuses it.
const renewed = guarded + `# The slice is empty then, and there again.
OnSuccess=` + unitname.Guard + `
`

// The list of the unit's own file goes: it would let in what is not reserved.
const confined = `DevicePolicy=` + closed + `
DeviceAllow=
`

// misplaced keeps a unit from starting that somebody wants to have elsewhere.
const misplaced = `# It is refused: it has %s, and who has partitions runs in ` + unitname.Slice + `.
# Take that line away, or make the slice one below: Slice=dcm-NAME.slice
AssertPathExists=/run/dcm/refused-for-its-own-Slice
`

// shared counts those who are there, and limits what the next one may take of the
// memory: in its cgroup, which is there by then.
const shared = `# At most %d instances at once.
ExecStartPre=+/usr/libexec/dcm/dcm-guard enter %s %%n
`

const released = `# Written by dcm-generator: nothing is reserved for this unit any more, and it is
# restarted with what tells so.
[Unit]
After=` + unitname.Reserve + `
PartOf=` + unitname.Reserve + `
`

const observer = `# Written by dcm-generator: [guard] observers names this service; see ` + "`man dcm.toml`" + `.
# An edit here is lost at the next daemon-reload.
[Service]
# Partitions that are reserved exclusively open below this slice.
Slice=` + unitname.ObserverSlice + `
`

// guard is for dcm-guard.service. The slices that it names in its table are started before
// it: their cgroups exist then, and have the same numbers until they are stopped.
func (o Order) guard() string {
	text := ""
	if len(o.HolderSlices) > 0 {
		text += fmt.Sprintf("[Unit]\nWants=%s\nAfter=%[1]s\n", strings.Join(o.HolderSlices, " "))
	}
	if len(o.Watching) > 0 {
		// A backslash begins an escape there.
		units := strings.ReplaceAll(strings.Join(o.Watching, " "), `\`, `\\`)
		text += fmt.Sprintf("[Service]\nEnvironment=\"%s=%s\"\n", unitname.ObserversVariable, units)
	}
	if text == "" {
		return ""
	}
	return "# Written by dcm-generator: whom the guard lets in; see `man dcm-partitions`.\n" + text
}

// Dropins returns the generator's files: text by path below its directory. The drop-in of a
// template applies to all its instances.
func (o Order) Dropins() map[string]string {
	client := ordered
	if o.Require {
		client += required
	}
	files := make(map[string]string, len(o.Clients))
	for _, unit := range o.Behind {
		files[file(unit)] = behind
	}
	for _, unit := range o.Clients {
		files[file(unit)] = client
		if o.Guarded {
			files[file(unit)] += unguarded
		}
		if strings.HasSuffix(unit, ".socket") || strings.HasSuffix(unit, ".path") {
			files[file(unit)] += late
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
		text := ordered
		if o.Require && slices.Contains(o.Clients, r.Unit) {
			text = client
		}
		files[file(r.Unit)] = text + r.text()
	}
	return files
}

func file(unit string) string { return unit + ".d/" + dropin }

func (r Reserved) text() string {
	var unit, service strings.Builder
	unit.WriteString(chosen)
	if r.Changed {
		unit.WriteString("# The reservation has changed: with this the unit alone is restarted.\nPartOf=" + unitname.Reserve + "\n")
	}
	if r.Exclusive || r.Share > 0 {
		unit.WriteString("Wants=" + unitname.Guard + "\n")
	}
	service.WriteString("[Service]\n")
	own := r.Confinement()
	switch {
	case r.Slice.Value == "" || r.Slice.Value == unitname.Slice:
		// Exclusive partitions open below this slice.
		fmt.Fprintf(&service, "Slice=%s\n", own.Slice)
	case !r.Slice.Inside(unitname.Slice):
		fmt.Fprintf(&unit, misplaced, r.Slice)
	}
	service.WriteString(confined)
	for i := range max(r.Count, 1) {
		fmt.Fprintf(&unit, "AssertPathExists=/dev/dcm/%s/render%d\n", r.Name, i)
	}
	for _, node := range own.Allow {
		fmt.Fprintf(&service, "DeviceAllow=%s rwm\n", node)
	}
	if r.Share > 0 {
		fmt.Fprintf(&service, shared, r.Share, r.Name)
	}
	return unit.String() + service.String()
}

// checkUnit returns an error for names whose drop-in would not apply to exactly that unit.
func checkUnit(unit string) error {
	switch {
	case !unitname.Valid(unit):
		return fmt.Errorf("%q is not the name of a unit", unit)
	case unit == unitname.Apply:
		return fmt.Errorf("%s cannot be a client of itself", unit)
	}
	// systemd.unit(5): "foo-.service.d" applies to every unit foo-*.service.
	stem, _, _ := strings.Cut(unit[:strings.LastIndexByte(unit, '.')], "@")
	if strings.HasSuffix(stem, "-") {
		return fmt.Errorf("%q stands for every unit whose name begins so, not for one", unit)
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
