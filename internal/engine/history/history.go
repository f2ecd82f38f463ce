// Package history keeps the last runs of dcm-apply.service, each with its result and its reason.
//
// The file has one writer, the oneshot under its lock. A run appends one line when it begins and
// another when it ends, so that a killed run is recorded too. A loss of power may lose the last
// line.
package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/linux/atomicfile"
)

// File is the file's name in the state directory, /var/lib/dcm.
const File = "history.jsonl"

// Most is the number of runs that are kept.
const Most = 100

// maxSize is the size, in bytes, at which old runs are removed. A run has two lines of about 300
// bytes, or 1000 with an error.
const maxSize = 256 << 10

// Entry is one run.
type Entry struct {
	ID       string          `json:"id"`   // systemd's invocation id
	Boot     string          `json:"boot"` // the kernel's boot id
	Started  time.Time       `json:"started"`
	Finished time.Time       `json:"finished,omitzero"`
	Profile  string          `json:"profile"`
	Source   string          `json:"source,omitempty"` // what selected the profile
	Asked    runstate.Asked  `json:"asked"`
	Result   runstate.Result `json:"result"`
	Changed  int             `json:"changed"` // number of GPUs with another mode than before
	GPUs     int             `json:"gpus"`
	Error    string          `json:"error,omitempty"`
}

// Of returns the entry of a run.
func Of(r runstate.Run) Entry {
	e := Entry{
		ID: r.ID, Boot: r.Boot, Started: r.Started, Finished: r.Finished, Profile: r.Profile, Source: r.Source,
		Asked: r.Asked, Result: r.Result, GPUs: len(r.GPUs),
	}
	for _, g := range r.GPUs {
		if g.Changed() {
			e.Changed++
		}
	}
	if r.Error != nil {
		e.Error = r.Error.Text
	}
	return e
}

func (e Entry) same(other Entry) bool { return e.ID == other.ID && e.Started.Equal(other.Started) }

// Append adds a line for a run that has begun, or one that has ended.
func Append(path string, e Entry) error {
	err := crop(path)
	line, bad := json.Marshal(e)
	if err = errors.Join(err, bad); err == nil {
		err = add(path, append(line, '\n'))
	}
	if err != nil {
		return fmt.Errorf("cannot write the history of runs: %w", err)
	}
	return nil
}

// add appends a line. If the last line was cut off, it ends that one first.
func add(path string, line []byte) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	if info, err := f.Stat(); err == nil && info.Size() > 0 {
		last := make([]byte, 1)
		if _, err := f.ReadAt(last, info.Size()-1); err == nil && last[0] != '\n' {
			line = append([]byte{'\n'}, line...)
		}
	}
	_, err = f.Write(line)
	return errors.Join(err, f.Close())
}

// crop removes old runs from a file that has reached maxSize.
func crop(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() < maxSize {
		return nil
	}
	if err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var kept bytes.Buffer
	for _, e := range parse(text) {
		line, err := json.Marshal(e)
		if err != nil {
			return err
		}
		kept.Write(append(line, '\n'))
	}
	return atomicfile.Write(path, kept.Bytes(), atomicfile.Options{Mode: 0o644})
}

// Read returns the last runs, the latest at the end; none if there is no file. underWay reports
// whether a run is in progress; if not, a run without an end was killed.
func Read(path string, underWay bool) ([]Entry, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the history of runs: %w", err)
	}
	all := parse(text)
	for i := range all {
		if all[i].Result == runstate.Running && (!underWay || i < len(all)-1) {
			all[i].Result = runstate.Killed
		}
	}
	return all, nil
}

// parse joins the two lines of each run. It skips lines that are not valid, such as one that was
// cut off.
func parse(text []byte) []Entry {
	var all []Entry
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e Entry
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Started.IsZero() {
			continue
		}
		if i := slices.IndexFunc(all, e.same); i >= 0 {
			all[i] = e
			continue
		}
		all = append(all, e)
	}
	return all[max(0, len(all)-Most):]
}
