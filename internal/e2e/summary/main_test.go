package main

import (
	"strings"
	"testing"
)

func TestSummaryIsRedWhereTheTestsAre(t *testing.T) {
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
		"a failing test tells all": {passed + `{"Action":"output","Package":"dcm/b","Test":"TestB","Output":"want 1\n"}
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
			if err := s.read(strings.NewReader(tt.input)); err != nil {
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

func TestSummaryRefusesOtherInput(t *testing.T) {
	if err := newSummary(new(strings.Builder)).read(strings.NewReader("ok dcm 1s")); err == nil {
		t.Error("plain output of go test was taken for JSON")
	}
}
