package top

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"dcm/internal/frontends/status"
	"dcm/internal/sanitize"
)

// model is what is shown. A key makes another one of it, and its view is made from it
// alone: bubbletea's shape.
type model struct {
	usage   status.Usage
	looked  bool
	err     error
	every   time.Duration
	sort    int
	reverse bool
	help    bool
	first   int // row shown
	width   int
	height  int
}

// newModel is sorted by the column of that name, or else by how busy partitions are.
func newModel(by string, every time.Duration) model {
	return model{sort: max(0, slices.Index(Columns(), by)), every: every, width: 80, height: 24}
}

// act is what a key asks for beside another view.
type act int

const (
	nothing act = iota
	refresh
	quit
)

// press is a key pressed.
func (m model) press(k key) (model, act) {
	page := max(1, m.height-around)
	n := len(columns())
	switch k {
	case "q", ctrlC:
		return m, quit
	case " ":
		return m, refresh
	case "h", "?":
		m.help = !m.help
	case "<", keyLeft:
		m.sort, m.first = (m.sort+n-1)%n, 0
	case ">", keyRight:
		m.sort, m.first = (m.sort+1)%n, 0
	case "r":
		m.reverse, m.first = !m.reverse, 0
	case keyUp:
		m.first--
	case keyDown:
		m.first++
	case keyPageUp:
		m.first -= page
	case keyPageDown:
		m.first += page
	case keyHome:
		m.first = 0
	case keyEnd:
		m.first = len(m.usage.Parts)
	case keyEscape:
		m.help = false
	}
	m.first = max(0, min(m.first, len(m.usage.Parts)-page))
	return m, nothing
}

// around are the lines that are no partition's: the summary, the state, the heading.
const around = 3

// view is the lines of the screen, each no wider than it is.
func (m model) view() []string {
	lines := m.lines()
	lines = lines[:min(len(lines), max(1, m.height))]
	for i := range lines {
		lines[i] = line(lines[i], m.width)
	}
	return lines
}

func (m model) lines() []string {
	switch {
	case m.help:
		return strings.Split(m.helpText(), "\n")
	case !m.looked && m.err == nil:
		return []string{"dcm top - looking"}
	case !m.looked:
		return []string{"dcm top", sanitize.Text(m.err.Error())}
	}
	all := m.columns()
	rows := sorted(m.usage, all[m.sort], m.reverse)
	first := max(0, min(m.first, len(rows)-max(1, m.height-around)))
	out := []string{summary(m.usage), m.state(), heading(all)}
	for _, r := range rows[first:] {
		out = append(out, cells(all, r))
	}
	return out
}

// state is the second line: how the table is sorted, and what is wrong.
func (m model) state() string {
	order := "by " + Columns()[m.sort]
	if m.reverse {
		order += ", reversed"
	}
	switch {
	case m.err != nil:
		return order + "; as of then: " + sanitize.Text(m.err.Error())
	case len(m.usage.Hidden) > 0:
		return order + "; not all can be seen: " + sanitize.Text(m.usage.Hidden[0].Why)
	}
	return fmt.Sprintf("%s, every %s; h for help, q to quit", order, m.every)
}

// columns are as wide as the terminal lets them be.
func (m model) columns() []column {
	all := columns()
	total := len(all) - 1
	for _, c := range all {
		total += c.width
	}
	for i, extra := 0, max(0, m.width-total); i < len(all); i++ {
		all[i].width += extra * all[i].more / 3
	}
	return all
}

func (m model) helpText() string {
	return `dcm top: how much of the GPUs' partitions is in use, and by whom

  q, ^C           quit
  space           look now
  < >, left right sort by another column
  r               reverse the order
  up down, page up, page down, home, end
                  the partitions that do not fit on the screen
  h, ?, escape    this help

  USED   memory that processes have; of a GPU that is one partition, all of it
  BUSY%  of the compute units' time
  USER   whose the processes are
  HOLDER who has it: a unit, a lease, a reservation, or who has it open
  -      cannot be seen from here, which is not 0

See dcm-partitions(7).`
}
