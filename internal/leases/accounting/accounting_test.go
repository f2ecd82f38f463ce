package accounting

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/event"
	"dcm/internal/linux/journal"
)

var zero = time.Unix(1_800_000_000, 0)

func at(minutes float64) time.Time {
	return zero.Add(time.Duration(minutes * float64(time.Minute)))
}

// entry is an entry of PID 1.
func entry(minutes float64, boot, id, unit, message string) journal.Entry {
	return journal.Entry{Time: at(minutes), Boot: boot, Fields: map[string][]string{"_PID": {"1"}, "MESSAGE_ID": {id}, "UNIT": {unit}, "MESSAGE": {message}}}
}

func reserved(minutes float64, boot, unit, share string, partitions ...string) journal.Entry {
	return journal.Entry{Time: at(minutes), Boot: boot, Fields: map[string][]string{"_PID": {"77"}, "MESSAGE_ID": {string(event.Reserved)}, "DCM_UNIT": {unit}, "DCM_SHARE": {share}, "DCM_PARTITIONS": partitions}}
}

const (
	ada   = "dcm-lease-1000-00000001.scope"
	bob   = "dcm-share2-1001-00000002.scope"
	later = "dcm-exclusive-1000-00000003.scope"
	lost  = "dcm-lease-1000-00000004.scope"
)

func TestLedger(t *testing.T) {
	l := NewLedger()
	for _, e := range []journal.Entry{
		entry(0, "b1", stopped, "sshd.service", "Stopped sshd.service."),
		reserved(1, "b1", "vllm.service", "", "0000:05:00.0-0", "0000:26:00.0-0"),
		reserved(1, "b1", "notebook@.service", "3", "0000:05:00.0-1"),
		entry(2, "b1", started, "vllm.service", "Started vllm.service - LLM."),
		entry(2, "b1", started, "notebook@1.service", "Started notebook@1.service."),
		entry(3, "b1", started, "cron.service", "Started cron.service."),
		entry(10, "b1", started, ada, "Started "+ada+" - Lease of 0000:05:00.0-2 0000:05:00.0-3: python3."),
		entry(20, "b1", deactivated, ada, ada+": Deactivated successfully."),
		entry(20, "b1", stopped, ada, "Stopped "+ada+"."),
		entry(22, "b1", failed, "notebook@1.service", "notebook@1.service: Failed with result 'exit-code'."),
		entry(23, "b1", started, bob, "Started Lease of 0000:05:00.0-2: sh."), // systemd 252
		// power cut at minute 33
		entry(40, "b2", started, later, "Started "+later+" - Lease of 0000:05:00.0-2: sh."),
		entry(41, "b2", started, lost, "Started "+lost+" - Lease of 0000:05:00.0-3: sh."),
	} {
		l.Add(e)
	}
	runs := l.Runs(Now{
		Time: at(60), Boot: "b2", Active: func(unit string) bool { return unit == later },
		Last: func(boot string) (time.Time, bool) { return at(33), boot == "b1" },
	})
	var got []string
	for _, r := range runs {
		got = append(got, fmt.Sprintf("%s %d of %d: %.0f-%.0f", r.Unit, len(r.Partitions), r.Share, r.Began.Sub(zero).Minutes(), r.Ended.Sub(zero).Minutes()))
	}
	want := []string{"notebook@1.service 1 of 3: 2-22", "vllm.service 2 of 0: 2-33", ada + " 2 of 0: 10-20", bob + " 1 of 2: 23-33", later + " 1 of 0: 40-60"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	if !l.Since.Equal(zero) || l.Unsure != 1 {
		t.Errorf("complete since %s with %d unsure, want %s with 1", l.Since, l.Unsure, zero)
	}
	name := func(uid uint32) string { return fmt.Sprint("u", uid) }
	for _, tt := range []struct {
		by    string
		since float64
		want  map[string]float64 // minutes
	}{
		{"user", 0, map[string]float64{"": 31*2 + 20./3, "u1000": 10*2 + 20, "u1001": 5}},
		{"user", 15, map[string]float64{"": 18*2 + 7./3, "u1000": 5*2 + 20, "u1001": 5}},
		{"user", 50, map[string]float64{"u1000": 10}},
		{"unit", 30, map[string]float64{"vllm.service": 6, bob: 1.5, later: 20}},
		{"gpu", 0, map[string]float64{"0000:05:00.0": 31 + 20./3 + 20 + 5 + 20, "0000:26:00.0": 31}},
	} {
		totals := Totals(runs, tt.by, at(tt.since), at(60), name)
		got := make(map[string]float64)
		for i, total := range totals {
			got[total.Name] = math.Round(total.Seconds/60*1000) / 1000
			if i > 0 && total.Seconds > totals[i-1].Seconds {
				t.Errorf("by %s since %.0f: not sorted: %+v", tt.by, tt.since, totals)
			}
		}
		for name, minutes := range tt.want {
			tt.want[name] = math.Round(minutes*1000) / 1000
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("partition-minutes by %s since %.0f (-want +got):\n%s", tt.by, tt.since, diff)
		}
	}
}

// Only PID 1 writes these entries, so other entries with the same ids are no runs.
func TestLedger_OtherProcessesIgnored(t *testing.T) {
	l := NewLedger()
	e := entry(1, "b1", started, ada, "Started "+ada+" - Lease of 0000:05:00.0-2: sh.")
	e.Fields["_PID"] = []string{"4711"}
	l.Add(e)
	if runs := l.Runs(Now{Time: at(2), Boot: "b1", Active: func(string) bool { return true }}); len(runs) > 0 {
		t.Errorf("runs: got %+v", runs)
	}
}

// The journal of a volatile or small store may lack the start of a lease.
func TestLedger_LeaseOlderThanJournal(t *testing.T) {
	l := NewLedger()
	l.Add(entry(30, "b1", started, later, "Started "+later+" - Lease of 0000:05:00.0-3: sh."))
	leases := []Run{{Unit: ada, Partitions: []string{"0000:05:00.0-2"}, Began: at(5)}, {Unit: later, Partitions: []string{"0000:05:00.0-3"}, Began: at(30)}}
	runs := l.Runs(Now{Time: at(60), Boot: "b1", Leases: leases, Active: func(string) bool { return true }})
	if len(runs) != 2 || runs[0].Unit != ada || runs[0].Seconds(at(0), at(60)) != 55*60 || runs[1].Seconds(at(0), at(60)) != 30*60 {
		t.Errorf("runs: got %+v", runs)
	}
}

// counted is an entry of the daemon with the counters of a lease.
func counted(minutes float64, unit, when, busy, energy string) journal.Entry {
	fields := map[string][]string{"_PID": {"77"}, "MESSAGE_ID": {string(event.LeaseCounted)}, "DCM_LEASE": {unit}, "DCM_AT": {when}}
	for name, list := range map[string]string{"DCM_BUSY": busy, "DCM_ENERGY": energy} {
		if list != "" {
			fields[name] = strings.Split(list, ",")
		}
	}
	return journal.Entry{Time: at(minutes), Boot: "b1", Fields: fields}
}

// Utilisation, energy and memory are those of the runs that have them and lie in the interval.
func TestTotals_Used(t *testing.T) {
	const gpu, other = "0000:05:00.0", "0000:26:00.0"
	peak := entry(21, "b1", resources, ada, ada+": Consumed 3s CPU time, 1G memory peak.")
	peak.Fields["MEMORY_PEAK"] = []string{"1073741824"}
	l := NewLedger()
	for _, e := range []journal.Entry{
		entry(0, "b1", started, ada, "Started "+ada+" - Lease of "+gpu+"-0 "+gpu+"-1: sh."),
		counted(0, ada, "start", gpu+"-0 1000 10,"+gpu+"-1 4294967000000 4294967290,junk", gpu+" 5000000"),
		entry(5, "b1", resources, "cron.service", "cron.service: Consumed 1s."), // of another unit
		entry(20, "b1", deactivated, ada, ada+": Deactivated successfully."),
		peak,
		counted(20, ada, "end", gpu+"-0 7000 110,"+gpu+"-1 4294967001000 4,"+other+"-7 1 1", gpu+" 1805000000"), // 60 %, 100 % with an overflow, 1800 J
		entry(20, "b1", started, later, "Started "+later+" - Lease of "+other+"-0: sh."),
		counted(20, later, "start", other+"-0 1000 1000", other+" 90"),
		entry(60, "b1", deactivated, later, later+": Deactivated successfully."),
		counted(60, later, "end", other+"-0 500 2000", other+" 80"), // reset
		entry(60, "b1", started, bob, "Started "+bob+" - Lease of "+other+"-0: sh."),
		counted(61, bob, "end", other+"-0 500 2000", ""), // without a start
	} {
		l.Add(e)
	}
	runs := l.Runs(Now{Time: at(70), Boot: "b1", Active: func(string) bool { return true }})
	name := func(uid uint32) string { return fmt.Sprint("u", uid) }
	show := func(by string, since float64) map[string]string {
		out := make(map[string]string)
		for _, total := range Totals(runs, by, at(since), at(70), name) {
			text := ""
			if total.Busy != nil {
				text += fmt.Sprintf(" %.0f %%", *total.Busy)
			}
			if total.Energy != nil {
				text += fmt.Sprintf(" %.0f J", *total.Energy)
			}
			if total.PeakMemory != nil {
				text += fmt.Sprintf(" %d MiB", *total.PeakMemory>>20)
			}
			out[total.Name] = strings.TrimSpace(text)
		}
		return out
	}
	for _, tt := range []struct {
		by    string
		since float64
		want  map[string]string
	}{
		{"user", 0, map[string]string{"u1000": "80 % 1800 J 1024 MiB", "u1001": ""}},
		{"unit", 0, map[string]string{ada: "80 % 1800 J 1024 MiB", later: "", bob: ""}},
		{"gpu", 0, map[string]string{gpu: "80 % 1800 J", other: ""}},
		{"user", 1, map[string]string{"u1000": "", "u1001": ""}},
	} {
		if diff := cmp.Diff(tt.want, show(tt.by, tt.since)); diff != "" {
			t.Errorf("use by %s since %.0f (-want +got):\n%s", tt.by, tt.since, diff)
		}
	}
}

// A reserved service has counters too. A daemon that was restarted logs its start again.
func TestTotals_ServiceUsed(t *testing.T) {
	const part = "0000:05:00.0-0"
	reserved := journal.Entry{Time: at(0), Boot: "b1", Fields: map[string][]string{
		"MESSAGE_ID": {string(event.Reserved)}, "DCM_UNIT": {"alpha.service"}, "DCM_PARTITIONS": {part},
	}}
	l := NewLedger()
	for _, e := range []journal.Entry{
		reserved,
		entry(1, "b1", started, "alpha.service", "Started alpha.service."),
		counted(1, "alpha.service", "start", part+" 1000 10", ""),
		counted(10, "alpha.service", "start", part+" 9000 100", ""),
		entry(20, "b1", deactivated, "alpha.service", "alpha.service: Deactivated successfully."),
		counted(20, "alpha.service", "end", part+" 10000 190", ""), // 50 %
	} {
		l.Add(e)
	}
	runs := l.Runs(Now{Time: at(30), Boot: "b1", Active: func(string) bool { return false }})
	if len(runs) != 1 || runs[0].Used.Busy[part] != 50 {
		t.Errorf("runs: got %+v, want one with 50 %%", runs)
	}
}

// A service whose start creates its partition has it until it is destroyed, also while systemd restarts the
// service. Without the reservation the service has none.
func TestLedger_CreatedPartition(t *testing.T) {
	const unit = "each@1.service"
	l := NewLedger()
	for _, e := range []journal.Entry{
		reserved(1, "b", unit, "", "0000:41:00.0-3"),
		entry(2, "b", started, unit, "Started each@1.service."),
		entry(5, "b", stopped, unit, "Stopped each@1.service."),
		entry(6, "b", started, unit, "Started each@1.service."),
		entry(10, "b", stopped, unit, "Stopped each@1.service."),
		reserved(11, "b", unit, ""),
		entry(12, "b", started, unit, "Started each@1.service."),
		entry(13, "b", started, "each@2.service", "Started each@2.service."),
	} {
		l.Add(e)
	}
	got := 0.0
	for _, r := range l.Runs(Now{Time: at(60), Boot: "b", Active: func(string) bool { return true }}) {
		got += r.Seconds(at(0), at(60))
	}
	if got != 7*60 {
		t.Errorf("partition-seconds: got %.0f, want %d", got, 7*60)
	}
}
