// Package accounting computes how long leases and reserved services have had partitions. It reads
// the entries that PID 1 writes when units start and end, so it needs no record of its own, and
// the daemon need not run. The partitions of a lease are in the description of its unit. Those of a
// reservation are in the entries of dcm-apply.service and dcm-reserve.service.
package accounting

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"dcm/internal/engine/event"
	"dcm/internal/leases/lease"
	"dcm/internal/linux/journal"
	"dcm/internal/linux/unitname"
)

// The entries of PID 1, see sd-messages.h of systemd.
const (
	started     = "39f53479d3a045ac8e11786248231fbf" // SD_MESSAGE_UNIT_STARTED
	stopped     = "9d1aaa27d60140bd96365438aad20286" // SD_MESSAGE_UNIT_STOPPED
	deactivated = "7ad2d189f7e94e70a38c781354912448" // SD_MESSAGE_UNIT_SUCCESS
	failed      = "d9b373ed55a64feb8242e02dbe79a49c" // SD_MESSAGE_UNIT_FAILURE_RESULT
	resources   = "ae8f7b866b0347b9af31fe1c80b127c0" // SD_MESSAGE_UNIT_RESOURCES, of a unit that has ended
)

// Matches returns the matches of journalctl(1) for the entries, and their fields. Only PID 1 and
// processes of root can write them.
func Matches() (matches, fields []string) {
	matches = []string{"_PID=1"}
	for _, id := range []string{started, stopped, deactivated, failed, resources} {
		matches = append(matches, "MESSAGE_ID="+id)
	}
	matches = append(matches, "+", "_UID=0", "MESSAGE_ID="+string(event.Reserved), "MESSAGE_ID="+string(event.LeaseCounted))
	return matches, []string{"MESSAGE", "MESSAGE_ID", "UNIT", "_PID", "MEMORY_PEAK", "DCM_UNIT", "DCM_PARTITIONS", "DCM_SHARE", "DCM_LEASE", "DCM_AT", "DCM_BUSY", "DCM_ENERGY"}
}

// Run is one run of a lease or of a reserved service.
type Run struct {
	Unit       string
	Partitions []string
	Share      int // the number of units that may share the partitions; 0: they are not shared
	Began      time.Time
	Ended      time.Time // zero while it runs
	PeakMemory uint64    // of the unit's cgroup, host memory in bytes; 0 if systemd has not logged it
	Used       Used

	boot  string
	start counters
}

// Lease reports whether the run is that of a lease, and whose.
func (r Run) Lease() (uid uint32, ok bool) {
	name, ok := unitname.ParseLease(r.Unit)
	return name.UID, ok
}

// Seconds returns the partition-seconds of the run in an interval. A partition that may be shared by
// three counts a third for each of them.
func (r Run) Seconds(since, until time.Time) float64 {
	from, to := r.Began, r.Ended
	if from.Before(since) {
		from = since
	}
	if to.After(until) {
		to = until
	}
	return max(to.Sub(from).Seconds(), 0) * float64(len(r.Partitions)) / float64(max(r.Share, 1))
}

// Ledger collects the runs from the entries.
type Ledger struct {
	Since  time.Time // of the first entry: the runs are complete since then
	Unsure int       // runs whose end is not in the journal, although the host was not rebooted since; they are not counted

	runs    []Run
	open    map[string]Run // by boot and unit
	last    map[string]int // the index in runs of the last run that has ended, by boot and unit
	choices map[string]choice
}

// choice has the partitions of a reservation.
type choice struct {
	partitions []string
	share      int
}

// NewLedger returns an empty ledger.
func NewLedger() *Ledger {
	return &Ledger{open: make(map[string]Run), last: make(map[string]int), choices: make(map[string]choice)}
}

// Add adds an entry. The oldest one is added first.
func (l *Ledger) Add(e journal.Entry) {
	switch e.Get("MESSAGE_ID") {
	case string(event.Reserved):
		share, _ := strconv.Atoi(e.Get("DCM_SHARE")) // absent: not shared
		l.choices[e.Get("DCM_UNIT")] = choice{e.Fields["DCM_PARTITIONS"], share}
		return
	case string(event.LeaseCounted):
		l.count(e)
		return
	}
	if e.Get("_PID") != "1" {
		return
	}
	if l.Since.IsZero() {
		l.Since = e.Time
	}
	unit := e.Get("UNIT")
	key := e.Boot + " " + unit
	if e.Get("MESSAGE_ID") == resources {
		if r := l.latest(key); r != nil {
			r.PeakMemory, _ = strconv.ParseUint(e.Get("MEMORY_PEAK"), 10, 64) // absent before systemd 256
		}
		return
	}
	if r, ok := l.open[key]; ok { // also at a start, if the end was not written
		r.Ended = e.Time
		l.last[key] = len(l.runs)
		l.runs = append(l.runs, r)
		delete(l.open, key)
	}
	if e.Get("MESSAGE_ID") == started {
		if partitions, share := l.partitionsOf(unit, e.Get("MESSAGE")); len(partitions) > 0 {
			l.open[key] = Run{Unit: unit, Partitions: partitions, Share: share, Began: e.Time, boot: e.Boot}
		}
	}
}

// latest returns the run of a unit that has ended last, nil if it has none.
func (l *Ledger) latest(key string) *Run {
	i, ok := l.last[key]
	if !ok {
		return nil
	}
	return &l.runs[i]
}

// count adds the counters of a lease at its start or end. An entry at the end follows that of PID 1.
func (l *Ledger) count(e journal.Entry) {
	key := e.Boot + " " + e.Get("DCM_LEASE")
	now := parseCounters(e.Fields["DCM_BUSY"], e.Fields["DCM_ENERGY"])
	// A daemon that was restarted logs the start of a service again.
	if r, ok := l.open[key]; ok && e.Get("DCM_AT") == "start" && r.start.busy == nil {
		r.start = now
		l.open[key] = r
	}
	if r := l.latest(key); r != nil && e.Get("DCM_AT") == "end" {
		r.Used = r.start.until(now)
	}
}

// partitionsOf returns the partitions of a unit that has started, none if it is neither a lease nor
// a reserved service.
func (l *Ledger) partitionsOf(unit, message string) (partitions []string, share int) {
	if name, ok := unitname.ParseLease(unit); ok {
		_, description, _ := strings.Cut(message, lease.DescriptionPrefix) // "Started UNIT - DESCRIPTION." or "Started DESCRIPTION."
		partitions, _ = lease.ParseDescription(description)
		return partitions, name.Of
	}
	c, ok := l.choices[unit]
	if template, _, instance := strings.Cut(unit, "@"); !ok && instance {
		c = l.choices[template+"@.service"]
	}
	return c.partitions, c.share
}

// Now is the present state, which the journal does not have.
type Now struct {
	Time   time.Time
	Boot   string                              // the boot id
	Leases []Run                               // the leases: the start of one may be older than the journal
	Active func(unit string) bool              // reports whether a unit is active
	Last   func(boot string) (time.Time, bool) // returns the time of the last entry of a former boot
}

// Runs ends the open runs and returns all, by their start. A run of a former boot without an end, as after a
// power cut, ends with the last entry of that boot. A run of an active unit ends now.
func (l *Ledger) Runs(now Now) []Run {
	for _, key := range slices.Sorted(maps.Keys(l.open)) {
		r := l.open[key]
		ok := true
		if r.boot == now.Boot {
			r.Ended, ok = now.Time, now.Active(r.Unit)
		} else {
			r.Ended, ok = now.Last(r.boot)
		}
		if !ok {
			l.Unsure++
			continue
		}
		l.runs = append(l.runs, r)
	}
	clear(l.open)
	for _, r := range now.Leases {
		if !slices.ContainsFunc(l.runs, func(known Run) bool { return known.Unit == r.Unit }) {
			r.Ended = now.Time
			l.runs = append(l.runs, r)
		}
	}
	slices.SortStableFunc(l.runs, func(a, b Run) int { return a.Began.Compare(b.Began) })
	return l.runs
}
