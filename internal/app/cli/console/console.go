package console

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/term"
)

// Console is the output of a command: results on Out, everything else on Err.
type Console struct {
	Out, Err   io.Writer
	Terminal   bool // out is a terminal
	colour     bool
	IgnoresINT bool // the process ignores SIGINT from its start: a shell's job in the background
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
	terminal := term.IsTerminal(int(out.Fd()))
	return &Console{
		Out: &Writer{Writer: out}, Err: err,
		Terminal:   terminal,
		IgnoresINT: signal.Ignored(syscall.SIGINT),
		// https://no-color.org
		colour: terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
	}
}

// Answer writes v to standard output as JSON.
func (c *Console) Answer(v any) error {
	e := json.NewEncoder(c.Out)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func (c *Console) paint(code, s string) string {
	if !c.colour {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (c *Console) Red(s string) string    { return c.paint("31", s) }
func (c *Console) Green(s string) string  { return c.paint("32", s) }
func (c *Console) Yellow(s string) string { return c.paint("33", s) }
func (c *Console) Bold(s string) string   { return c.paint("1", s) }

// Note prints an informational message to standard error.
func (c *Console) Note(text string) { fmt.Fprintln(c.Err, c.Yellow("dcm: ")+text) }

// Warn prints a warning to standard error. Further lines of text, such as the hint, are indented.
func (c *Console) Warn(text string) {
	fmt.Fprintln(c.Err, c.Yellow("dcm: warning: ")+Indent(text))
}

// Indent indents all lines of text but the first, such as a hint.
func Indent(text string) string { return strings.ReplaceAll(text, "\n", "\n   ") }
