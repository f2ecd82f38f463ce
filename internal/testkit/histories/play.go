package histories

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dcm/internal/linux/unitname"
	"dcm/internal/testkit/pid1"
)

// script is a history: the seed of the order of effects, the features of the host, and the actions.
type script struct {
	seed    uint64
	host    []string
	actions []string
}

func (s script) String() string {
	return fmt.Sprintf("seed %d\nhost %s\n%s\n", s.seed, strings.Join(s.host, " "), strings.Join(s.actions, "\n"))
}

// parseScript reads the form of [script.String]. A line that begins with # is a comment.
func parseScript(text string) (s script, err error) {
	for line := range strings.Lines(text) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case word == "" || strings.HasPrefix(word, "#"):
		case word == "seed":
			if s.seed, err = strconv.ParseUint(rest, 10, 64); err != nil {
				return s, err
			}
		case word == "host":
			s.host = strings.Fields(rest)
		default:
			s.actions = append(s.actions, strings.TrimSpace(line))
		}
	}
	return s, nil
}

// outcome is what a history has shown.
type outcome struct {
	violations []Violation
	hash       uint64
	effects    int
	actions    int
	err        error
}

// player plays histories.
type player struct {
	parsed *parsed
	own    []pid1.File
}

// newPlayer reads dcm's unit files from their directory.
func newPlayer(dir string) (*player, error) {
	p := &player{parsed: &parsed{}}
	for name, program := range map[string]string{unitname.Apply: "dcm oneshot", unitname.Daemon: "dcm daemon", unitname.Gate: "dcm gate", unitname.Change: "dcm change"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		f := pid1.ParseFile(name, string(text))
		f.Start = program
		p.own = append(p.own, f)
	}
	slices.SortFunc(p.own, func(a, b pid1.File) int { return strings.Compare(a.Name, b.Name) })
	return p, nil
}

// The times of a history without actions.
const (
	bootDelay   = 30 * time.Second
	quietWindow = 10 * time.Minute // after the last fault: longer than the daemon's longest back-off, and its waits for units
)

// play plays a history. log receives the journal; it may be nil.
func (p *player) play(t *testing.T, s script, log io.Writer) (out outcome) {
	synctest.Test(t, func(*testing.T) {
		w := newWorld(s.seed, newScenario(s.host, p.own, p.parsed), log)
		w.start()
		time.Sleep(bootDelay)
		for _, a := range s.actions {
			if err := w.act(a); err != nil && out.err == nil {
				out.err = fmt.Errorf("%s: %w", a, err)
			}
		}
		w.do(w.endFaults)
		time.Sleep(quietWindow)
		w.do(func() {
			w.checks.final()
			out.violations, out.hash, out.effects, out.actions = w.checks.found, w.hash, w.effects, w.actions
		})
		w.end()
	})
	return out
}

// endFaults ends the holders, and what would fail or kill later. The caller holds mu.
func (w *world) endFaults() {
	w.kills = nil
	clear(w.armed)
	w.endHardwareFaults()
	for _, p := range slices.Clone(w.procs) {
		p.kill = nil
		if p.holder {
			w.finish(p, 0, 0)
		}
	}
	if _, err := w.config(); err != nil {
		w.files.admin = strings.ReplaceAll(w.files.admin, "\nbroken = [", "")
		w.configEvent()
	}
}

// end kills all processes, so that their goroutines end.
func (w *world) end() {
	w.mu.Lock()
	w.ended = true
	for _, p := range slices.Clone(w.procs) {
		p.unit = ""
		w.finish(p, 0, 9)
	}
	w.pending = nil
	for _, one := range w.waits {
		close(one.done)
	}
	w.waits = nil
	if w.timer != nil {
		w.timer.Stop()
	}
	w.mu.Unlock()
}
