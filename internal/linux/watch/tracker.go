package watch

import (
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"

	"github.com/fsnotify/fsnotify"
)

// attempts bounds how often a tree is looked at that changes under the look.
const attempts = 10

// tracker keeps inotify's watches where the wanted directories are now.
type tracker struct {
	watcher *fsnotify.Watcher
	wanted  []string // absolute
	now     *scope
	log     *slog.Logger
}

// refresh looks again at the wanted directories and reports whether one of them
// leads somewhere else than before.
func (t *tracker) refresh() (changed bool, err error) {
	var next *scope
	for range attempts {
		next = newScope(t.watcher.Add)
		if err = t.lookAll(next); !errors.Is(err, errMoved) {
			break
		}
	}
	for path := range t.now.watched {
		if !next.watched[path] {
			// It fails if the kernel has dropped the watch already, which is as well.
			_ = t.watcher.Remove(path)
		}
	}
	changed = !maps.Equal(t.now.found, next.found)
	t.now = next
	return changed, err
}

func (t *tracker) lookAll(s *scope) error {
	var errs []error
	for _, dir := range t.wanted {
		errs = append(errs, s.directory(dir))
	}
	return errors.Join(errs...)
}

// end removes all watches.
func (t *tracker) end() {
	for _, path := range t.watcher.WatchList() {
		_ = t.watcher.Remove(path) // as in refresh
	}
}

// event reports whether an event is a change of what is wanted.
func (t *tracker) event(ev fsnotify.Event) bool {
	path := filepath.Clean(ev.Name)
	before, step := t.now.steps[path]
	content := t.now.content[filepath.Dir(path)] || t.now.content[path] && ev.Has(fsnotify.Write)
	// An entry that goes is on a way that is known, if it was a link to follow, and one
	// that comes may be one. Other files come and go with each write of a report.
	if !step && !t.now.watched[path] && (!content || ev.Op == fsnotify.Write || !leads(path)) {
		return content
	}
	changed := t.again() || content
	// The successor of what was removed can have its inode number, and so its
	// identity; and what was moved away and back has lost events meanwhile.
	moved := ev.Op&^(fsnotify.Write|fsnotify.Chmod) != 0
	return changed || moved && (before || t.now.steps[path])
}

// leads tells whether an entry is a link.
func leads(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && isLink(info)
}

// again refreshes; what went wrong is logged, since the next event tries anew.
func (t *tracker) again() bool {
	changed, err := t.refresh()
	if err != nil {
		t.log.Warn("cannot watch the configuration", "err", err)
	}
	return changed || err != nil
}
