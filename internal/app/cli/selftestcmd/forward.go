package selftestcmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
	"dcm/internal/sanitize"
)

// forwardInterval is the interval in which the output of the unit is read.
const forwardInterval = 200 * time.Millisecond

// forward shows the events that the unit writes to a file, until stop is called.
func forward(h *host.Host, v *view) (file string, stop func(), err error) {
	f, err := os.CreateTemp(h.Runtime(), "selftest-*.log")
	if err != nil {
		return "", nil, err
	}
	over, shown := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(shown)
		tick := time.NewTicker(forwardInterval)
		defer tick.Stop()
		lines := &lineReader{from: f}
		for ended := false; !ended; {
			select {
			case <-tick.C:
			case <-over:
				ended = true
			}
			for _, line := range lines.read() {
				v.line(line)
			}
			v.tick(time.Now())
		}
		v.clear()
	}()
	return f.Name(), sync.OnceFunc(func() {
		close(over)
		<-shown
		f.Close()
		os.Remove(f.Name())
	}), nil
}

// line shows a line of the unit's output. What is no event is a message, for example of a panic.
func (v *view) line(line string) {
	var e event
	if err := json.Unmarshal([]byte(line), &e); err == nil {
		v.show(e)
		return
	}
	v.clear()
	fmt.Fprintln(v.con.Err, sanitize.Text(line))
}

// lineReader returns the complete lines of a file that another process appends to.
type lineReader struct {
	from io.Reader
	rest []byte
}

func (l *lineReader) read() []string {
	more, _ := io.ReadAll(l.from) // output that cannot be read does not stop the test
	l.rest = append(l.rest, more...)
	end := bytes.LastIndexByte(l.rest, '\n')
	if end < 0 {
		return nil
	}
	lines := strings.Split(string(l.rest[:end]), "\n")
	l.rest = l.rest[end+1:]
	return lines
}

// emitter writes events as lines of JSON.
func emitter(con *console.Console) func(event) {
	out := json.NewEncoder(con.Out)
	return func(e event) { _ = out.Encode(e) } // the test and its archive do not need the reader
}
