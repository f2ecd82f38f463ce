// Command summary reads the output of `go test -json` and prints what a person
// wants of it: a line for each package and end-to-end test, why tests were
// skipped, all that failing tests said, and at the end the counts. It exits
// with 1 if anything failed or nothing was run.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	s := newSummary(os.Stdout)
	if err := s.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "summary:", err)
		os.Exit(1)
	}
	if !s.end() {
		os.Exit(1)
	}
}

// event is one line of the output, see `go doc test2json`.
type event struct {
	Action, Package, ImportPath, Test, Output, FailedBuild string
	Elapsed                                                float64
}

type name struct{ pkg, test string }

type summary struct {
	w      io.Writer
	output map[name]*strings.Builder // of tests and packages that have not ended
	tests  map[string]int            // by the action they ended with
	pkgs   map[string]int
}

func newSummary(w io.Writer) *summary {
	return &summary{w: w, output: map[name]*strings.Builder{}, tests: map[string]int{}, pkgs: map[string]int{}}
}

func (s *summary) read(r io.Reader) error {
	dec := json.NewDecoder(r)
	for {
		var e event
		if err := dec.Decode(&e); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("this is not the output of go test -json: %w", err)
		}
		s.add(e)
	}
}

func (s *summary) add(e event) {
	n := name{e.Package, e.Test}
	switch e.Action {
	case "output":
		if s.output[n] == nil {
			s.output[n] = new(strings.Builder)
		}
		s.output[n].WriteString(e.Output)
	case "build-output":
		fmt.Fprint(s.w, e.Output)
	case "pass", "fail", "skip":
		s.ended(n, e)
	}
}

func (s *summary) ended(n name, e event) {
	text := ""
	if b := s.output[n]; b != nil {
		text = b.String()
	}
	delete(s.output, n)
	if n.test == "" {
		s.pkgs[e.Action]++
		s.tell(e, e.Action == "fail", text)
		return
	}
	s.tests[e.Action]++
	if e.Action != "pass" || strings.HasSuffix(n.pkg, "/e2e") {
		s.tell(e, e.Action != "pass", text)
	}
}

func (s *summary) tell(e event, whole bool, text string) {
	if whole {
		fmt.Fprint(s.w, text)
	}
	fmt.Fprintf(s.w, "%-4s %s %s (%.1fs)\n", e.Action, e.Package, e.Test, e.Elapsed)
}

// end prints the counts. Nothing run is a failure: the tests are not where they
// were looked for.
func (s *summary) end() bool {
	// What never ended was cut off by a panic or the time limit.
	for n, b := range s.output {
		fmt.Fprintf(s.w, "%scut off: %s %s\n", b, n.pkg, n.test)
	}
	fmt.Fprintf(s.w, "\ntests:    %d passed, %d failed, %d skipped\n", s.tests["pass"], s.tests["fail"], s.tests["skip"])
	fmt.Fprintf(s.w, "packages: %d passed, %d failed, %d without tests\n", s.pkgs["pass"], s.pkgs["fail"], s.pkgs["skip"])
	return s.tests["fail"] == 0 && s.pkgs["fail"] == 0 && s.tests["pass"] > 0 && len(s.output) == 0
}
