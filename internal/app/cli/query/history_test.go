package query

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/event"
	"dcm/internal/engine/history"
	"dcm/internal/engine/runstate"
	"dcm/internal/linux/journal"
)

// A night in which a job was in the way of a change for hours: the refusals are one line, between the runs.
func TestMergeEvents_RefusedNight(t *testing.T) {
	evening := time.Date(2026, 11, 27, 22, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return evening.Add(time.Duration(minutes) * time.Minute) }
	entry := func(minutes int, id event.ID, text string) Event {
		return eventOf(journal.Entry{Time: at(minutes), Fields: map[string][]string{"MESSAGE_ID": {string(id)}, "DCM_PROFILE": {"spx-nps1"}, "DCM_ERROR": {text}}})
	}
	run := func(minutes int, result runstate.Result) history.Entry {
		return history.Entry{Started: at(minutes), Finished: at(minutes).Add(2 * time.Second), Profile: "cpx-nps4", Result: result, Changed: 7, GPUs: 8, Asked: runstate.Asked{Why: "boot"}}
	}
	all := mergeEvents(
		[]history.Entry{run(0, runstate.Applied), run(120, runstate.Refused), run(300, runstate.Applied)},
		[]Event{entry(10, event.InUse, "a is in use"), entry(20, event.InUse, "a is in use"), entry(90, event.InUse, "a is in use"), entry(120, event.InUse, "a is in use"), entry(200, event.Drifted, "another program")},
	)
	var got []string
	for _, e := range all {
		got = append(got, e.Kind)
	}
	if want := "applied refused refused drift applied"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if len(all) > 1 && !all[1].Until.Equal(at(90)) {
		t.Errorf("the refusals end at %s, want %s", all[1].Until, at(90))
	}
	for i, failed := range []bool{false, true, true, true, false} {
		if i < len(all) && all[i].Failed != failed {
			t.Errorf("%s: failed is %t, want %t", all[i].Kind, all[i].Failed, failed)
		}
	}
	var out bytes.Buffer
	printEvents(&console.Console{Out: &out}, all)
	if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); len(lines) != 6 || !strings.Contains(lines[1], "7 of 8") || !strings.Contains(lines[4], "1h20m0s") {
		t.Errorf("got:\n%s", &out)
	}
}
