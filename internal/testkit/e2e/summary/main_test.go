package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"dcm/internal/testkit/testdeadline"
)

func TestSummary_ExitStatus(t *testing.T) {
	const (
		passed = `{"Action":"output","Package":"dcm/a","Test":"TestA","Output":"chatter\n"}
{"Action":"pass","Package":"dcm/a","Test":"TestA"}
{"Action":"pass","Package":"dcm/a"}
`
		skipped = `{"Action":"output","Package":"dcm/a","Test":"TestS","Output":"needs root\n"}
{"Action":"skip","Package":"dcm/a","Test":"TestS"}
`
	)
	tests := map[string]struct {
		input   string
		green   bool
		shown   string
		omitted string
	}{
		"a passing test says nothing": {passed, true, "1 passed, 0 failed, 0 skipped", "chatter"},
		"a skip gives its reason":     {skipped + passed, true, "needs root", "chatter"},
		"all output of a failing test": {passed + `{"Action":"output","Package":"dcm/b","Test":"TestB","Output":"want 1\n"}
{"Action":"fail","Package":"dcm/b","Test":"TestB"}
`, false, "want 1", "chatter"},
		"a package that does not build": {passed + `{"Action":"build-output","ImportPath":"dcm/c","Output":"syntax error\n"}
{"Action":"fail","Package":"dcm/c","FailedBuild":"dcm/c"}
`, false, "syntax error", "chatter"},
		"a test that never ended": {passed + `{"Action":"output","Package":"dcm/d","Test":"TestD","Output":"panic\n"}
`, false, "cut off: dcm/d TestD", "chatter"},
		"nothing run": {"", false, "0 passed", "chatter"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			s := newSummary(&b)
			if err := s.watch(strings.NewReader(tt.input), time.Hour); err != nil {
				t.Fatal(err)
			}
			if got := s.end(); got != tt.green {
				t.Errorf("green = %v", got)
			}
			if !strings.Contains(b.String(), tt.shown) || strings.Contains(b.String(), tt.omitted) {
				t.Errorf("want %q, not %q in:\n%s", tt.shown, tt.omitted, b.String())
			}
		})
	}
}

// The last lines have the messages of failed tests, without the journal that follows them.
func TestSummary_RepeatsMessages(t *testing.T) {
	var b strings.Builder
	s := newSummary(&b)
	output := "    a_test.go:7: exit status: got 1\n        dcm: refused\n" + strings.Repeat("    ---- journal\n", 20)
	s.add(event{Action: "output", Package: "dcm/e2e", Test: "TestA", Output: output})
	s.add(event{Action: "fail", Package: "dcm/e2e", Test: "TestA"})
	s.add(event{Action: "fail", Package: "dcm/e2e", Test: "TestB"})
	s.add(event{Action: "output", Package: "dcm/e2e", Test: "TestC", Output: "    a_test.go:9: passed\n"})
	s.add(event{Action: "pass", Package: "dcm/e2e", Test: "TestC"})
	b.Reset()
	s.end()
	got := b.String()
	if !strings.Contains(got, "dcm/e2e TestA\n    a_test.go:7: exit status: got 1\n        dcm: refused\n") || strings.Contains(got, "passed\n    ") || strings.Count(got, "journal") != 8 || strings.Contains(got, "TestB") {
		t.Errorf("summary: want the message of TestA and eight lines after it, got:\n%s", got)
	}
}

func TestSummary_InvalidInput(t *testing.T) {
	if err := newSummary(new(strings.Builder)).watch(strings.NewReader("ok dcm 1s"), time.Hour); err == nil {
		t.Error("plain output of go test was taken for JSON")
	}
}

// said is a writer whose lines can be read while more are written.
type said struct{ lines chan string }

func (s said) Write(text []byte) (int, error) {
	s.lines <- string(text)
	return len(text), nil
}

func TestSummary_RunningTests(t *testing.T) {
	r, w := io.Pipe()
	said := said{make(chan string)}
	go newSummary(said).watch(r, 10*time.Millisecond)
	defer w.Close()
	for _, step := range []struct{ event, want string }{
		{``, "building"},
		{`{"Action":"start","Package":"dcm/e2e"}`, "dcm/e2e ("},
		{`{"Action":"run","Package":"dcm/e2e","Test":"TestNode"}{"Action":"run","Package":"dcm/e2e","Test":"TestNode/scale"}`, "dcm/e2e TestNode/scale ("},
		{`{"Action":"pause","Package":"dcm/e2e","Test":"TestNode/scale"}`, "dcm/e2e TestNode ("},
	} {
		go io.WriteString(w, step.event)
		deadline := testdeadline.After(10 * time.Second)
		for found := false; !found; {
			select {
			case line := <-said.lines:
				found = strings.HasPrefix(line, ".... "+step.want)
			case <-deadline:
				t.Fatalf("output after %s lacks %q", step.event, step.want)
			}
		}
	}
}

func TestUnderWay_CountsPackages(t *testing.T) {
	var b strings.Builder
	s := newSummary(&b)
	s.total = packages(t.Context(), []string{"-count=1", "."})
	s.add(event{Action: "pass", Package: "dcm/a"})
	s.underWay(time.Now())
	if want := ".... 1 of 1 packages done\n"; !strings.Contains(b.String(), want) {
		t.Errorf("printed %q, want %q", b.String(), want)
	}
}
