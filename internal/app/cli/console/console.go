package console

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"

	"golang.org/x/term"

	"dcm/internal/sanitize"
	"dcm/internal/text"
)

// Console is the output of a command: results on Out, everything else on Err.
type Console struct {
	Out, Err   io.Writer
	Terminal   bool // out is a terminal
	Live       bool // out is a terminal on which lines can be redrawn
	IgnoresINT bool // the process ignores SIGINT from its start: a shell's job in the background

	enveloped              bool // -o json
	colour, errColour      bool
	outColumns, errColumns func() int // nil: without a limit
}

// Writer remembers the first error of a write, for example on a full disk. Then the command
// fails.
type Writer struct {
	io.Writer
	Err error
}

func (a *Writer) Write(p []byte) (int, error) {
	n, err := a.Writer.Write(p)
	if a.Err == nil {
		a.Err = err
	}
	return n, err
}

// Stdio returns the console of a process.
func Stdio(out, err *os.File) *Console {
	return &Console{
		Out: &Writer{Writer: out}, Err: err,
		Terminal:   term.IsTerminal(int(out.Fd())),
		Live:       term.IsTerminal(int(out.Fd())) && sanitize.Env("TERM") != "dumb",
		IgnoresINT: signal.Ignored(syscall.SIGINT),
		colour:     coloured(out), errColour: coloured(err),
		outColumns: columns(out), errColumns: columns(err),
	}
}

// coloured reports whether a file is a terminal that shows colours, and NO_COLOR is not set
// (https://no-color.org).
func coloured(f *os.File) bool {
	return term.IsTerminal(int(f.Fd())) && sanitize.Env("NO_COLOR") == "" && sanitize.Env("TERM") != "dumb"
}

// columns returns a function that returns the current width of a terminal, nil for another file.
func columns(f *os.File) func() int {
	fd := int(f.Fd())
	if !term.IsTerminal(fd) {
		return nil
	}
	return func() int {
		width, _, err := term.GetSize(fd)
		if err != nil || width <= 0 {
			return defaultWidth // a serial console has no size
		}
		return max(width, minWidth)
	}
}

// Limits of the width of an output.
const (
	defaultWidth = 80
	minWidth     = 40 // nothing is shortened further
)

// To returns the console with other files for the same terminal.
func (c *Console) To(w io.Writer) *Console {
	other := *c
	other.Out, other.Err = w, w
	return &other
}

// Fixed returns a console that writes all to w, for a terminal without colours of that width.
func Fixed(w io.Writer, width int) *Console {
	columns := func() int { return width }
	return &Console{Out: w, Err: w, outColumns: columns, errColumns: columns}
}

// Width returns the number of columns of the terminal, 0 without a terminal: then nothing is
// shortened or wrapped.
func (c *Console) Width() int {
	if c.outColumns == nil {
		return 0
	}
	return c.outColumns()
}

// Coloured reports whether the output has colours.
func (c *Console) Coloured() bool { return c.colour }

func paint(on bool, code, s string) string {
	if !on || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (c *Console) Red(s string) string    { return paint(c.colour, "31", s) }
func (c *Console) Green(s string) string  { return paint(c.colour, "32", s) }
func (c *Console) Yellow(s string) string { return paint(c.colour, "33", s) }
func (c *Console) Bold(s string) string   { return paint(c.colour, "1", s) }

// Println prints lines of text, wrapped at words to the width of the terminal.
func (c *Console) Println(s string) { fmt.Fprintln(c.Out, wrap(c.outColumns, s)) }

// Printf is Println for a format that ends with a newline.
func (c *Console) Printf(format string, args ...any) {
	c.Println(strings.TrimSuffix(fmt.Sprintf(format, args...), "\n"))
}

// Labelled prints a text after its label. Continuation lines begin below the text.
func (c *Console) Labelled(label, s string) {
	if c.outColumns != nil {
		s = text.Wrap(label+s, c.outColumns(), text.Width(label))[len(label):]
	}
	fmt.Fprintln(c.Out, label+s)
}

// item is the number of an item in a list.
var item = regexp.MustCompile(`^ *[0-9]+\. `)

// wrap wraps lines. Continuation lines are indented by two columns more than their line, or begin
// below the text of an item.
func wrap(columns func() int, s string) string {
	if columns == nil {
		return s
	}
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		hang := len(line) - len(strings.TrimLeft(line, " ")) + 2
		if number := item.FindString(line); number != "" {
			hang = len(number)
		}
		lines[i] = text.Wrap(line, columns(), hang)
	}
	return strings.Join(lines, "\n")
}

// Note prints an informational message to standard error.
func (c *Console) Note(s string) { c.complain("33", "dcm: ", s) }

// Warn prints a warning to standard error. Further lines of text, such as the hint, are indented.
func (c *Console) Warn(s string) { c.complain("33", "dcm: warning: ", Indent(s)) }

// Fail prints a line of an error to standard error.
func (c *Console) Fail(s string) { c.complain("31", "dcm: ", s) }

func (c *Console) complain(code, prefix, s string) {
	fmt.Fprintln(c.Err, wrap(c.errColumns, paint(c.errColour, code, prefix)+s))
}

// Indent indents all lines of text but the first, such as a hint.
func Indent(text string) string {
	return strings.ReplaceAll(text, "\n", "\n   ")
}
