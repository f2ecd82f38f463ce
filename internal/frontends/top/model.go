package top

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"dcm/internal/frontends/status"
	"dcm/internal/sanitize"
	"dcm/internal/text"
)

// model is the state of the screen. A key changes it, and the screen shows nothing else (the
// architecture of bubbletea).
type model struct {
	usage  status.Usage
	loaded bool
	err    error
	every  time.Duration
	order  Order
	help   bool
	first  int // index of the first row on the screen
	width  int
	height int
	colour bool // bars are coloured by load
}

// newModel returns a model in an order.
func newModel(o Order, every time.Duration) model {
	o.By = o.column().name()
	return model{order: o, every: every, width: 80, height: 24}
}

// sortBy moves the order by a number of columns.
func (m model) sortBy(step int) model {
	all := Columns()
	m.order.By = all[(slices.Index(all, m.order.By)+step+len(all))%len(all)]
	m.first = 0
	return m
}

// action is an effect of a key outside of the model.
type action int

const (
	nothing action = iota
	refresh
	quit
)

// press handles a key.
func (m model) press(k key) (model, action) {
	page := max(1, m.height-m.fixed())
	switch k {
	case "q", ctrlC:
		return m, quit
	case " ":
		return m, refresh
	case "h", "?":
		m.help = !m.help
	case "<", keyLeft:
		m = m.sortBy(-1)
	case ">", keyRight:
		m = m.sortBy(1)
	case "r":
		m.order.Reverse, m.first = !m.order.Reverse, 0
	case "a":
		m.order.Each, m.first = !m.order.Each, 0
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
		m.first = len(sorted(m.usage, m.order))
	case keyEscape:
		m.help = false
	}
	m.first = max(0, min(m.first, len(sorted(m.usage, m.order))-page))
	return m, nothing
}

// fixed returns the number of lines above the partitions: summary, state, GPUs, heading.
func (m model) fixed() int { return 3 + len(m.bars()) }

// bars returns the use of each GPU, if these lines leave half of the screen to the partitions.
func (m model) bars() []load {
	all := loads(m.usage)
	if 2*len(all) > m.height-3 {
		return nil
	}
	return all
}

// view returns the lines of the screen, cut at its width.
func (m model) view() []string {
	lines := m.lines()
	lines = lines[:min(len(lines), max(1, m.height))]
	for i := range lines {
		lines[i] = text.CutEnd(lines[i], m.width)
	}
	return lines
}

func (m model) lines() []string {
	switch {
	case m.help:
		return strings.Split(m.helpText(), "\n")
	case !m.loaded && m.err == nil:
		return []string{"dcm top - loading"}
	case !m.loaded:
		return []string{"dcm top", sanitize.Text(m.err.Error())}
	}
	rows := sorted(m.usage, m.order)
	first := max(0, min(m.first, len(rows)-max(1, m.height-m.fixed())))
	out := []string{summary(m.usage), m.state()}
	for _, l := range m.bars() {
		out = append(out, l.line(m.width))
	}
	all := fitting(columns(), m.width)
	out = append(out, heading(all))
	for _, r := range rows[first:] {
		out = append(out, cells(all, r))
	}
	return out
}

// state returns the second line: the order of the table, and problems.
func (m model) state() string {
	order := "by " + m.order.By
	if m.order.Reverse {
		order += ", reversed"
	}
	switch {
	case m.err != nil:
		return order + "; not updated: " + sanitize.Text(text.OneLine(m.err.Error()))
	case len(m.usage.Hidden) > 0:
		return order + "; incomplete: " + sanitize.Text(text.OneLine(m.usage.Hidden[0].Why))
	}
	return fmt.Sprintf("%s, every %s; h for help, q to quit", order, m.every)
}

func (m model) helpText() string {
	return `dcm top: usage and holders of the GPUs' partitions

  q, ^C           quit
  space           update now
  < >, left right sort by another column
  r               reverse the order
  a               each free partition has a line of its own, or those of a GPU share one
  up down, page up, page down, home, end
                  the partitions that do not fit on the screen
  h, ?, escape    this help

  USED   memory that processes use; for an undivided GPU, all memory in use
  BUSY%  share of the compute units' time
  USER   users of the processes and of the lease
  HOLDER unit, lease or process that holds the partition; "for vllm": reserved for vllm
  -      unknown, which is not 0

See dcm-partitions(7).`
}
