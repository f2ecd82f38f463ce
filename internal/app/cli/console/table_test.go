package console

import (
	"bytes"
	"strings"
	"testing"

	"dcm/internal/text"
)

// fruit prints a table for a terminal of that width; 0 is for no terminal.
func fruit(width int) string {
	var out bytes.Buffer
	con := Fixed(&out, width)
	if width == 0 {
		con = &Console{Out: &out}
	}
	t := con.NewTable("NAME", "EMPTY", "COLOUR", "PATH", "REMARK").Optional("COLOUR")
	t.Row("apple", "-", "red and green", "/orchard/north/row-7/tree-19", "sweet, and keeps through the winter")
	t.Row("fig", "-", "purple", "/greenhouse/1", "-")
	t.Row("walnut", "no fruit: a nut of the northern hemisphere")
	t.Flush()
	return out.String()
}

func TestTable_Fits(t *testing.T) {
	for _, tt := range []struct {
		width int
		want  string
	}{
		{0, `
  NAME    EMPTY  COLOUR         PATH                          REMARK
  apple   -      red and green  /orchard/north/row-7/tree-19  sweet, and keeps through the winter
  fig     -      purple         /greenhouse/1                 -
  walnut  no fruit: a nut of the northern hemisphere
`}, {90, `
  NAME    COLOUR         PATH                          REMARK
  apple   red and green  /orchard/north/row-7/tree-19  sweet, and keeps through the winter
  fig     purple         /greenhouse/1                 -
  walnut  no fruit: a nut of the northern hemisphere
`}, {60, `
  NAME    PATH                          REMARK
  apple   /orchard/north/row-7/tree-19  sweet, and keeps
                                        through the winter
  fig     /greenhouse/1                 -
  walnut  no fruit: a nut of the northern hemisphere
`}, {45, `
  NAME    PATH               REMARK
  apple   /orchard…/tree-19  sweet, and keeps
                             through the
                             winter
  fig     /greenhouse/1      -
  walnut  no fruit: a nut of the northern
          hemisphere
`},
	} {
		if got := fruit(tt.width); got != tt.want[1:] {
			t.Errorf("width %d:\n%s\nwant\n%s", tt.width, got, tt.want[1:])
		}
	}
}

func TestTable_NeverWider(t *testing.T) {
	for width := 40; width < 120; width++ {
		for line := range strings.Lines(fruit(width)) {
			if n := text.Width(strings.TrimRight(line, "\n")); n > width {
				t.Errorf("width %d: a line of %d: %q", width, n, line)
			}
		}
	}
}

func TestPrintln_Wraps(t *testing.T) {
	var out bytes.Buffer
	con := Fixed(&out, 30)
	con.Println("a sentence that is longer than the terminal is wide")
	con.Println("  12. an item that is longer than the terminal")
	con.Labelled("  Label  ", "a value that is longer than the terminal")
	con.Warn("a warning that is long\nhint: what to do about it, in words")
	const want = `a sentence that is longer than
  the terminal is wide
  12. an item that is longer
      than the terminal
  Label  a value that is
         longer than the
         terminal
dcm: warning: a warning that
  is long
   hint: what to do about it,
     in words
`
	if out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", &out, want)
	}
}
