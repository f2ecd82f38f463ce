package journal

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"dcm/internal/sanitize"
)

// Entry is an entry of the journal.
type Entry struct {
	Time   time.Time
	Boot   string              // the kernel's boot id, in hexadecimal
	Fields map[string][]string // by name; an entry may have several fields of one name
}

// Get returns the first field of that name, "" if there is none.
func (e Entry) Get(name string) string {
	if values := e.Fields[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// Read calls each for the entries that options and matches of journalctl(1) select, the oldest first.
// fields are the fields that are read. Entries that the user has no permission to read are missing.
func Read(ctx context.Context, fields, arguments []string, each func(Entry)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends journalctl after an error
	all := append([]string{"--no-pager", "--quiet", "--all", "--output=json", "--output-fields=" + strings.Join(fields, ",")}, arguments...)
	cmd := exec.CommandContext(ctx, "journalctl", all...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("cannot read the journal: %w", err)
	}
	err = decode(out, each)
	if err != nil {
		cancel()
	}
	ended := cmd.Wait()
	if err == nil && ended != nil && stderr.Len() > 0 { // without a match the status of some versions is 1
		err = fmt.Errorf("%w: %s", ended, sanitize.Lines(strings.TrimSpace(stderr.String())))
	}
	if err != nil {
		return fmt.Errorf("cannot read the journal: %w", err)
	}
	return nil
}

// decode reads one entry of each line, as `journalctl --output=json` prints them.
func decode(r io.Reader, each func(Entry)) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 1 {
			var raw map[string]json.RawMessage
			if err := json.Unmarshal(line, &raw); err != nil {
				return err
			}
			e, err := entryOf(raw)
			if err != nil {
				return err
			}
			each(e)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func entryOf(raw map[string]json.RawMessage) (Entry, error) {
	e := Entry{Fields: make(map[string][]string, len(raw))}
	for name, value := range raw {
		for _, text := range valuesOf(value) {
			e.Fields[name] = append(e.Fields[name], sanitize.Text(text))
		}
	}
	microseconds, err := strconv.ParseInt(e.Get("__REALTIME_TIMESTAMP"), 10, 64)
	if err != nil {
		return e, fmt.Errorf("an entry has no time: %w", err)
	}
	e.Time, e.Boot = time.UnixMicro(microseconds), e.Get("_BOOT_ID")
	return e, nil
}

// valuesOf returns the values of a field: a string, or a list of them. Values that are not text are
// lists of numbers, and are omitted.
func valuesOf(value json.RawMessage) []string {
	var one string
	if json.Unmarshal(value, &one) == nil {
		return []string{one}
	}
	var several []string
	if json.Unmarshal(value, &several) == nil {
		return several
	}
	return nil
}
