package importer

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/config/source"
)

func unshifted(line int) int { return line }

// plain returns the values of a node as Go values.
func plain(n *source.Node) any {
	if t, ok := n.Table(); ok {
		all := make(map[string]any)
		for key, child := range t {
			all[key] = plain(child)
		}
		return all
	}
	if items, ok := n.Value.([]*source.Node); ok {
		all := []any{}
		for _, item := range items {
			all = append(all, plain(item))
		}
		return all
	}
	return n.Value
}

func TestParseYAML(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       any
	}{
		{"scalars", "[a, 'yes', \"7\", 7, 0x10, 1.5, true, null, ~, 2026-11-28]", []any{"a", "yes", "7", int64(7), int64(16), 1.5, true, nil, nil, "2026-11-28"}},
		{"booleans of YAML 1.1", "[yes, No, ON, off, y, N]", []any{true, false, true, false, true, false}},
		{"an alias", "a: &x {b: 1}\nc: *x\n", map[string]any{"a": map[string]any{"b": int64(1)}, "c": map[string]any{"b": int64(1)}}},
		{"merged tables", "a: &x {b: 1, c: 2}\nd:\n  <<: *x\n  b: 3\n", map[string]any{"a": map[string]any{"b": int64(1), "c": int64(2)}, "d": map[string]any{"b": int64(3), "c": int64(2)}}},
		{"a list of merged tables", "x: &x {a: 1}\ny: &y {a: 2, b: 2}\nz: {<<: [*x, *y]}\n", map[string]any{"x": map[string]any{"a": int64(1)}, "y": map[string]any{"a": int64(2), "b": int64(2)}, "z": map[string]any{"a": int64(1), "b": int64(2)}}},
		{"empty documents around it", "---\n# nothing\n---\n- a\n---\n# nothing\n", []any{"a"}},
		{"no document", "# nothing\n", nil},
		{"JSON", "{\"a\": [1]}", map[string]any{"a": []any{int64(1)}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n, broken := parseYAML("f", tt.text, unshifted)
			if broken != nil {
				t.Fatal(broken)
			}
			if diff := cmp.Diff(tt.want, plain(n)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseYAML_Lines(t *testing.T) {
	root, broken := parseYAML("f", "# head\na:\n  - b: {c: 1,\n       d: 2}\n  -\n    e: |\n      x\n", unshifted)
	if broken != nil {
		t.Fatal(broken)
	}
	items := root.At("a").Items()
	for name, tt := range map[string]struct{ got, want int }{
		"a": {root.At("a").Line, 2}, "b": {items[0].At("b").Line, 3}, "c": {items[0].At("b", "c").Line, 3},
		"d": {items[0].At("b", "d").Line, 4}, "e": {items[1].At("e").Line, 6},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: line %d, want %d", name, tt.got, tt.want)
		}
	}
}

func TestParseYAML_Refused(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := range 8 {
		before, next := string(rune('0'+i)), string(rune('1'+i))
		bomb.WriteString("a" + next + ": &a" + next + " [" + strings.TrimSuffix(strings.Repeat("*a"+before+", ", 10), ", ") + "]\n")
	}
	for _, tt := range []struct{ name, text, want string }{
		{"a key twice", "a: 1\nb: 2\na: 3\n", `f:3: not YAML: "a" is given twice, first on line 1`},
		{"a key that is a table", "? {a: 1}\n: 2\n", "f:1: not YAML: a key must be a string"},
		{"two documents", "a: 1\n---\nb: 2\n", "f:3: a second YAML document; accepted: one"},
		{"an alias within its value", "a: &a [*a]\n", "f:1: not YAML: nested more than 32 deep"},
		{"aliases of aliases", bomb.String(), "more than 100000 values"},
		{"nested too deeply", strings.Repeat("[", 40) + strings.Repeat("]", 40), "f:1: not YAML: nested more than 32 deep"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, broken := parseYAML("f", tt.text, unshifted)
			if broken == nil || !strings.Contains(source.NewErrors(*broken).Error(), tt.want) {
				t.Errorf("got %v, want %q", broken, tt.want)
			}
		})
	}
}
