package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"dcm/internal/text"
)

// event is one line of the output, see `go doc test2json`.
type event struct {
	Action, Package, ImportPath, Test, Output, FailedBuild string
	Elapsed                                                float64
}

type name struct{ pkg, test string }

func (n name) String() string { return strings.TrimSpace(n.pkg + " " + n.test) }

type summary struct {
	w       io.Writer
	output  map[name]*strings.Builder // output of tests and packages that have not ended
	began   map[name]time.Time        // of those that are not waiting for others
	tests   map[string]int            // by the action they ended with
	pkgs    map[string]int
	failed  []string // the messages of failed tests
	first   []string // the first message of each failed test, in a line
	limited []string // failed tests that name a limit of the host, and the limit
	rootly  []name   // tests that were skipped since this user is not root
	total   int      // packages, or 0 if unknown
	printed bool     // something was printed since the last tick
}

func newSummary(w io.Writer) *summary {
	return &summary{w: w, output: map[name]*strings.Builder{}, began: map[name]time.Time{}, tests: map[string]int{}, pkgs: map[string]int{}}
}

// watch reads events. After each interval without output it prints the running tests.
func (s *summary) watch(r io.Reader, progressInterval time.Duration) error {
	events, failed := make(chan event), make(chan error, 1)
	go func() {
		failed <- read(r, func(e event) { events <- e })
		close(events)
	}()
	beat := time.NewTicker(progressInterval)
	defer beat.Stop()
	for {
		select {
		case e, more := <-events:
			if !more {
				return <-failed
			}
			s.add(e)
			if s.printed {
				beat.Reset(progressInterval)
				s.printed = false
			}
		case <-beat.C:
			s.underWay(time.Now())
		}
	}
}

func read(r io.Reader, f func(event)) error {
	dec := json.NewDecoder(r)
	for {
		var e event
		if err := dec.Decode(&e); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("this is not the output of go test -json: %w", err)
		}
		f(e)
	}
}

func (s *summary) add(e event) {
	n := name{e.Package, e.Test}
	switch e.Action {
	case "start", "run", "cont":
		s.began[n] = time.Now()
	case "pause":
		delete(s.began, n)
	case "output":
		if s.output[n] == nil {
			s.output[n] = new(strings.Builder)
		}
		s.output[n].WriteString(e.Output)
	case "build-output":
		s.say("%s", e.Output)
	case "pass", "fail", "skip":
		s.ended(n, e)
	}
}

func (s *summary) say(format string, args ...any) {
	fmt.Fprintf(s.w, format, args...)
	s.printed = true
}

// underWay returns the innermost running tests, the longest one first.
func (s *summary) underWay(now time.Time) {
	var inner []name
	for n := range maps.Keys(s.began) {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(s.began)), func(o name) bool {
			return o.pkg == n.pkg && o != n && (n.test == "" || strings.HasPrefix(o.test, n.test+"/"))
		}) {
			inner = append(inner, n)
		}
	}
	slices.SortFunc(inner, func(a, b name) int { return cmp.Or(s.began[a].Compare(s.began[b]), strings.Compare(a.test, b.test)) })
	if s.total > 0 {
		s.say(".... %d of %d packages done\n", s.pkgs["pass"]+s.pkgs["fail"]+s.pkgs["skip"], s.total)
	}
	if len(inner) == 0 {
		s.say(".... building, or waiting for a lock\n")
	}
	for _, n := range inner[:min(4, len(inner))] {
		s.say(".... %s (%.0fs so far)\n", n, now.Sub(s.began[n]).Seconds())
	}
}

func (s *summary) ended(n name, e event) {
	text := ""
	if b := s.output[n]; b != nil {
		text = b.String()
	}
	delete(s.output, n)
	delete(s.began, n)
	if n.test == "" {
		s.pkgs[e.Action]++
		if e.Action != "skip" { // a package without tests
			s.print(e, e.Action == "fail", text)
		}
		return
	}
	s.tests[e.Action]++
	if e.Action == "skip" && os.Geteuid() != 0 && aboutRoot.MatchString(text) {
		s.rootly = append(s.rootly, n)
	}
	if e.Action == "fail" {
		m := messages(n, text)
		s.failed = append(s.failed, m...)
		if len(m) > 1 {
			s.first = append(s.first, n.String()+": "+strings.TrimSpace(m[1]))
		}
		if limit := outOfLimit.FindString(text); limit != "" {
			s.limited = append(s.limited, n.String()+": "+limit)
		}
	}
	if e.Action != "pass" || strings.HasSuffix(n.pkg, "/e2e") {
		s.print(e, e.Action != "pass", text)
	}
}

func (s *summary) print(e event, whole bool, text string) {
	if whole {
		s.say("%s", text)
	}
	s.say("%-4s %s (%.1fs)%s%s\n", e.Action, name{e.Package, e.Test}, e.Elapsed, sinceBoot.FindString(text), processorTime.FindString(text))
}

// sinceBoot and processorTime are what a test with a container logs. Its elapsed time includes the wait for a turn,
// and depends on the load.
var (
	sinceBoot     = regexp.MustCompile(` from the boot of its container: [0-9]+ s`)
	processorTime = regexp.MustCompile(` processor time in the container: [0-9.]+ s`)
)

// longestMessage is how much of a message is repeated after the counts.
const longestMessage = 400

// aboutRoot is in the reason of each test that only root can run.
var aboutRoot = regexp.MustCompile(`\broot\b`)

// position begins the message of a test, after its indentation.
var position = regexp.MustCompile(`^ +[a-z0-9_]+_test\.go:[0-9]+: `)

// messages returns the messages in the output of a test, with up to ten lines each. The output of a
// failed end-to-end test also has the journal, and the end of a log often omits its beginning.
func messages(n name, output string) []string {
	const longest = 10
	var out []string
	left := 0
	for line := range strings.Lines(output) {
		if position.MatchString(line) {
			if len(out) == 0 {
				out = append(out, n.String()+"\n")
			}
			left = longest
		}
		if left > 0 {
			out = append(out, line)
			left--
		}
	}
	return out
}

// end repeats the messages of failed tests and prints the counts. If no test was run, that is a
// failure: the pattern matches none.
func (s *summary) end() bool {
	// A test without an end was interrupted by a panic.
	for n, b := range s.output {
		s.say("%scut off: %s\n", b, n)
	}
	if len(s.failed) > 0 {
		s.say("\nmessages of failed tests:\n%s", strings.Join(s.failed, ""))
	}
	if len(s.limited) > 0 {
		s.say("\nfailed at a limit of this host, not necessarily by a defect: %d\n    %s\n", len(s.limited), strings.Join(s.limited, "\n    "))
	}
	if len(s.rootly) > 0 {
		s.say("\nskipped for want of root: %d\n", len(s.rootly))
		for _, n := range s.rootly {
			s.say("    %s\n", n)
		}
	}
	s.say("\ntests:    %d passed, %d failed, %d skipped\n", s.tests["pass"], s.tests["fail"], s.tests["skip"])
	s.say("packages: %d passed, %d failed, %d without tests\n", s.pkgs["pass"], s.pkgs["fail"], s.pkgs["skip"])
	if len(s.first) > 0 {
		s.say("the first message of each failed test:\n")
		for _, line := range s.first {
			s.say("    %s\n", text.CutEnd(line, longestMessage))
		}
	}
	return s.tests["fail"] == 0 && s.pkgs["fail"] == 0 && s.tests["pass"] > 0 && len(s.output) == 0
}
