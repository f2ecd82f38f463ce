package metrics

import (
	"math"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestText_Escapes(t *testing.T) {
	var e exposition
	g := e.gauge("a_info", "A \\ and\nanother \"line\".", "of", "by")
	g.set(1, "plain", "")
	g.set(0.25, "a\\b\n\"c\"", "z\xff.toml")
	e.counter("b_total", "B.").set(1e9)
	e.gauge("c", "Never seen.")
	e.gauge("d", "Not finite.").set(math.Inf(1))
	want := `# HELP dcm_a_info A \\ and\nanother "line".
# TYPE dcm_a_info gauge
dcm_a_info{of="plain",by=""} 1
dcm_a_info{of="a\\b\n\"c\"",by="z` + "\ufffd" + `.toml"} 0.25
# HELP dcm_b_total B.
# TYPE dcm_b_total counter
dcm_b_total 1e+09
# HELP dcm_d Not finite.
# TYPE dcm_d gauge
dcm_d +Inf
`
	if diff := cmp.Diff(want, string(e.text())); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}

// Whatever a label contains, the collector must be able to read the file.
func FuzzText(f *testing.F) {
	f.Add("x")
	f.Add("\x1b\xff\n\"\\")
	line := regexp.MustCompile(`^dcm_a\{x="(\\[\\n"]|[^\\"\n])*"\} 1$`)
	f.Fuzz(func(t *testing.T, value string) {
		var e exposition
		e.gauge("a", value, "x").set(1, value)
		text := string(e.text())
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if len(lines) != 3 || !line.MatchString(lines[2]) || !utf8.ValidString(text) {
			t.Errorf("invalid text: %q", text)
		}
	})
}

// Each metric occurs once, with all its samples.
func TestRender_NoDuplicates(t *testing.T) {
	seen := make(map[string]bool)
	for line := range strings.Lines(string(Render(facts(), at(20000), nil))) {
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
			if seen[name] {
				t.Errorf("two families are named %s", name)
			}
			seen[name] = true
		}
	}
	if len(seen) < 10 {
		t.Errorf("metrics: got %v", seen)
	}
}
