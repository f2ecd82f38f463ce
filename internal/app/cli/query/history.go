package query

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/event"
	"dcm/internal/engine/history"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/exitcode"
	"dcm/internal/linux/journal"
)

// History is the output of dcm history --json.
type History struct {
	Version int     `json:"version"`
	Events  []Event `json:"events"` // the oldest first
}

// Event is an entry of the history: a run, or an event of the journal.
type Event struct {
	At      time.Time `json:"at"`
	Until   time.Time `json:"until,omitzero"` // end of a run or of what an event began, or the last of several equal events
	Kind    string    `json:"kind"`           // the result of a run, or one of the kinds of [eventKinds]
	Profile string    `json:"profile"`
	Changed int       `json:"changed"` // of a run: number of GPUs with another mode than before
	GPUs    int       `json:"gpus"`
	Object  string    `json:"object,omitempty"` // the GPU or unit of an event
	Text    string    `json:"text"`             // the cause of a run, and its error
	Failed  bool      `json:"failed"`
	Former  bool      `json:"former"` // of a run: the last one of its profile, to which one can go back

	run bool
}

// The kinds of events that another event ends.
const (
	refused = "refused"
	drift   = "drift"
	lost    = "lost GPU"
	back    = "GPU back"
)

// eventKinds are the kinds of the journal's events that are part of the history.
func eventKinds() map[event.ID]string {
	return map[event.ID]string{
		event.InUse: refused, event.Refused: refused, event.Drifted: drift, event.ConfigRejected: "bad configuration",
		event.ClientNotBack: "client down", event.Rebooting: "reboot", event.GPULost: lost, event.GPUBack: back,
	}
}

func HistoryCmd(h *host.Host, con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "history [--since TIME] [--failed] [--json]",
		Short: "Show the changes and what prevented them, with their causes",
		Long: `Show the last hundred runs, the newest first, including those of earlier boots. Between
them are the events of the journal: refused changes, drift, errors of the configuration,
and reboots by dcm. They also have lost and returned GPUs, and services that did not come
back. Equal events that follow each other are one line. The column
BACK marks the last run of each other profile, and the command that returns to it.

The journal's events require root or membership in the group systemd-journal or adm.`,
		Example: "  dcm history --since yesterday\n  dcm history --failed",
		Args:    console.Args(cobra.NoArgs),
	}
	asJSON := con.JsonFlag(cmd)
	since := cmd.Flags().String("since", "", "show what began after this `TIME`, such as yesterday, 12h or 2026-11-01")
	failed := cmd.Flags().Bool("failed", false, "show only what failed")
	cmd.RunE = func(c *cobra.Command, _ []string) error {
		from, err := console.ParseSince(*since, time.Now())
		if err != nil {
			return exitcode.With(exitcode.Usage, err)
		}
		runs, err := host.History(h)
		if err != nil {
			return err
		}
		others, err := journalEvents(c.Context(), h)
		if err != nil {
			con.Warn(err.Error())
		}
		all := slices.DeleteFunc(markFormer(mergeEvents(runs, others), formerRuns(h, runs)), func(e Event) bool {
			return e.At.Before(from) && e.Until.Before(from) || *failed && !e.Failed
		})
		if *asJSON {
			return con.Answer(History{Version: 1, Events: all})
		}
		printEvents(con, all)
		return nil
	}
	return cmd
}

// journalEvents reads the events of dcm in the journal. On another root there are none.
func journalEvents(ctx context.Context, h *host.Host) ([]Event, error) {
	var out []Event
	if !h.Here() {
		return nil, nil
	}
	matches := []string{"_UID=0"}
	for id := range eventKinds() {
		matches = append(matches, "MESSAGE_ID="+string(id))
	}
	err := journal.Read(ctx, []string{"MESSAGE", "MESSAGE_ID", "DCM_PROFILE", "DCM_ERROR", "DCM_GPU", "DCM_UNIT"}, matches, func(e journal.Entry) {
		out = append(out, eventOf(e))
	})
	return out, err
}

func eventOf(e journal.Entry) Event {
	kind := eventKinds()[event.ID(e.Get("MESSAGE_ID"))]
	text := cmp.Or(e.Get("DCM_ERROR"), e.Get("MESSAGE"))
	return Event{
		At: e.Time, Kind: kind, Profile: e.Get("DCM_PROFILE"), Object: cmp.Or(e.Get("DCM_GPU"), e.Get("DCM_UNIT")),
		Text: strings.TrimSpace(text), Failed: kind != "reboot" && kind != back,
	}
}

// mergeEvents returns the runs and the other events in order, the oldest first. A refused run is an event of the
// journal too, which is left out. Equal events without a run between them become one.
func mergeEvents(runs []history.Entry, others []Event) []Event {
	all := []Event{}
	for _, r := range runs {
		e := Event{run: true, At: r.Started, Until: r.Finished, Kind: string(r.Result), Profile: r.Profile, Changed: r.Changed, GPUs: r.GPUs, Text: strings.TrimSpace(r.Asked.String()), Failed: !r.Result.OK() && r.Result != runstate.Round}
		if r.Error != "" {
			e.Text += ": " + r.Error
		}
		all = append(all, e)
	}
	within := func(e Event) bool {
		return slices.ContainsFunc(runs, func(r history.Entry) bool {
			return !e.At.Before(r.Started) && !e.At.After(r.Finished.Add(time.Second)) && e.Kind == string(r.Result)
		})
	}
	all = append(all, slices.DeleteFunc(others, within)...)
	slices.SortStableFunc(all, func(a, b Event) int { return a.At.Compare(b.At) })
	var out []Event
	for _, e := range all {
		if n := len(out); n > 0 && !e.run && sameEvent(out[n-1], e) {
			out[n-1].Until = e.At
			continue
		}
		out = append(out, e)
	}
	return withEnds(out)
}

// withEnds sets the end of each event that a later one ends.
func withEnds(all []Event) []Event {
	for i := range all {
		if n := slices.IndexFunc(all[i+1:], all[i].endedBy); n >= 0 {
			all[i].Until = all[i+1+n].At
		}
	}
	return all
}

// endedBy reports whether a later event ends this one. A run that succeeds ends a refusal and a drift.
func (e Event) endedBy(later Event) bool {
	switch {
	case e.run:
		return false
	case e.Kind == refused, e.Kind == drift:
		return later.run && !later.Failed
	case e.Kind == lost:
		return later.Kind == back && later.Object == e.Object
	}
	return false
}

func sameEvent(a, b Event) bool {
	return a.Kind == b.Kind && a.Profile == b.Profile && a.Object == b.Object && a.Text == b.Text && a.run == b.run
}

// formerRuns returns the runs to which one can go back, the newest first; none if the configuration cannot be read.
func formerRuns(h *host.Host, runs []history.Entry) []history.Entry {
	cfg, err := h.Config()
	if err != nil {
		return nil
	}
	return history.Former(runs, cfg.Selected, cfg.Has)
}

// markFormer marks the events of these runs.
func markFormer(all []Event, runs []history.Entry) []Event {
	for i := range all {
		all[i].Former = slices.ContainsFunc(runs, func(r history.Entry) bool {
			return all[i].GPUs > 0 && all[i].At.Equal(r.Started) && all[i].Profile == r.Profile
		})
	}
	return all
}

// printEvents prints the events, the newest first.
func printEvents(con *console.Console, all []Event) {
	if len(all) == 0 {
		con.Println("Nothing is recorded.")
		return
	}
	t := con.NewTable("BEGAN", "TOOK", "RESULT", "PROFILE", "CHANGED", "BACK", "CAUSE").Optional("CHANGED", "TOOK")
	back := "dcm undo" // of the newest run to which one can go back
	for _, e := range slices.Backward(all) {
		first, _, _ := strings.Cut(e.Text, "\n")
		way := "-"
		if e.Former {
			way, back = back, "dcm use"
		}
		cells := runRow(e.At, e.Until, e.Kind, e.Profile, e.Changed, e.GPUs, first)
		t.Row(slices.Insert(cells, len(cells)-1, way)...)
	}
	t.Flush()
}

// runRow returns the cells of a run, or of another event, which has no GPUs.
func runRow(began, ended time.Time, result, profile string, changed, gpus int, cause string) []string {
	took, of := "-", "-" // a run that was killed has recorded neither
	if !ended.IsZero() {
		took = ended.Sub(began).Round(time.Millisecond).String()
	}
	if gpus > 0 {
		of = fmt.Sprintf("%d of %d", changed, gpus)
	}
	return []string{began.Local().Format(time.DateTime), took, result, console.OrDash(profile), of, cause}
}

// listRuns prints the history of runs, the newest first. The JSON has the oldest first.
func listRuns(h *host.Host, con *console.Console, asJSON bool) error {
	all, err := host.History(h)
	switch {
	case err != nil:
		return err
	case asJSON:
		return con.Answer(all)
	case len(all) == 0:
		con.Println("No run is recorded.")
		return nil
	}
	t := con.NewTable("BEGAN", "TOOK", "RESULT", "PROFILE", "CHANGED", "ASKED FOR").Optional("CHANGED", "TOOK")
	for _, e := range slices.Backward(all) {
		t.Row(runRow(e.Started, e.Finished, string(e.Result), e.Profile, e.Changed, e.GPUs, strings.TrimSpace(e.Asked.String()))...)
	}
	t.Flush()
	return nil
}
