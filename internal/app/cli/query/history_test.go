package query

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
	if len(all) > 1 && !all[1].Until.Equal(at(300)) {
		t.Errorf("the refusals end at %s, want %s", all[1].Until, at(300))
	}
	for i, failed := range []bool{false, true, true, true, false} {
		if i < len(all) && all[i].Failed != failed {
			t.Errorf("%s: failed is %t, want %t", all[i].Kind, all[i].Failed, failed)
		}
	}
	var out bytes.Buffer
	printEvents(&console.Console{Out: &out}, all)
	if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); len(lines) != 6 || !strings.Contains(lines[1], "7 of 8") || !strings.Contains(lines[4], "4h50m0s") {
		t.Errorf("got:\n%s", &out)
	}
}

// Each event has the time of the one that ended it.
func TestMergeEvents_Ends(t *testing.T) {
	midnight := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return midnight.Add(time.Duration(minutes) * time.Minute) }
	entry := func(minutes int, id event.ID, field, value string) Event {
		return eventOf(journal.Entry{Time: at(minutes), Fields: map[string][]string{"MESSAGE_ID": {string(id)}, field: {value}, "MESSAGE": {"text"}}})
	}
	run := func(minutes int, result runstate.Result) history.Entry {
		return history.Entry{Started: at(minutes), Finished: at(minutes), Result: result, GPUs: 8}
	}
	const one, other = "0000:46:00.0", "0000:65:00.0"
	for _, test := range []struct {
		name   string
		runs   []history.Entry
		events []Event
		want   []string // kind, object and minutes of the first event, "-" without an end
	}{
		{"a GPU is back", nil, []Event{entry(0, event.GPULost, "DCM_GPU", one), entry(30, event.GPUBack, "DCM_GPU", one)}, []string{"lost GPU", one, "30"}},
		{"another GPU is back", nil, []Event{entry(0, event.GPULost, "DCM_GPU", one), entry(30, event.GPUBack, "DCM_GPU", other)}, []string{"lost GPU", one, "-"}},
		{"two GPUs are lost", nil, []Event{entry(0, event.GPULost, "DCM_GPU", one), entry(1, event.GPULost, "DCM_GPU", other), entry(30, event.GPUBack, "DCM_GPU", one)}, []string{"lost GPU", one, "30"}},
		{"a run repairs drift", []history.Entry{run(2, runstate.Failed), run(5, runstate.Applied)}, []Event{entry(0, event.Drifted, "DCM_PROFILE", "cpx")}, []string{"drift", "", "5"}},
		{"a refusal ends without a change", []history.Entry{run(60, runstate.Unchanged)}, []Event{entry(0, event.InUse, "DCM_PROFILE", "cpx")}, []string{"refused", "", "60"}},
		{"a refusal that goes on", []history.Entry{run(60, runstate.Refused)}, []Event{entry(0, event.InUse, "DCM_PROFILE", "cpx")}, []string{"refused", "", "-"}},
		{"a client", []history.Entry{run(60, runstate.Applied)}, []Event{entry(0, event.ClientNotBack, "DCM_UNIT", "a.service")}, []string{"client down", "a.service", "-"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := mergeEvents(test.runs, test.events)[0]
			minutes := "-"
			if !e.Until.IsZero() {
				minutes = fmt.Sprint(int(e.Until.Sub(e.At).Minutes()))
			}
			if diff := cmp.Diff(test.want, []string{e.Kind, e.Object, minutes}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
