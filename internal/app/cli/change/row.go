package change

import (
	"strings"

	"dcm/internal/app/cli/console"
	"dcm/internal/text"
)

// row is a line of the drawing.
type row struct {
	state rowState
	what  string
	right string // time, or progress
	note  string // shown after right: an error, or how long the last run took
	frame int    // of the spinner
}

type rowState int

const (
	rowWaiting rowState = iota
	rowActive
	rowDone
	rowFailed
)

// spinner are the marks of a stage that is under way.
var spinner = []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}

// text returns the line, cut at the width.
func (r row) text(con *console.Console, width int) string {
	mark := " "
	switch r.state {
	case rowActive:
		mark = con.Yellow(spinner[r.frame%len(spinner)])
	case rowDone:
		mark = con.Green("✓")
	case rowFailed:
		mark = con.Red("×")
	}
	const left = 4                       // indentation and mark
	column := min(48, max(20, width-44)) // of the times
	line := text.Pad(text.CutMiddle(r.what, column), column+2) + r.right
	if r.note != "" {
		line += "   " + r.note
	}
	if line = strings.TrimRight(line, " "); text.Width(line) > width-left {
		line = text.CutEnd(line, width-left-1) + "…"
	}
	return "  " + mark + " " + line
}
