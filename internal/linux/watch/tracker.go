package watch

import (
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"

	"github.com/fsnotify/fsnotify"
)

// maxAttempts limits the attempts to read directories that change meanwhile.
const maxAttempts = 10

// tracker updates the inotify watches when directories are replaced.
type tracker struct {
	watcher *fsnotify.Watcher
	wanted  []string // the directories to watch, absolute paths
	now     *scope
	log     *slog.Logger
}

// refresh resolves the directories again. It reports whether a path now leads to another directory or
// file.
func (t *tracker) refresh() (changed bool, err error) {
	var next *scope
	for range maxAttempts {
		next = newScope(t.watcher.Add)
		if err = t.lookAll(next); !errors.Is(err, errMoved) {
			break
		}
	}
	for path := range t.now.watched {
		if !next.watched[path] {
			// Remove fails if the kernel has already removed the watch.
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

// event reports whether an event is a change in the directories.
func (t *tracker) event(ev fsnotify.Event) bool {
	path := filepath.Clean(ev.Name)
	before, step := t.now.steps[path]
	content := t.now.content[filepath.Dir(path)] || t.now.content[path] && ev.Has(fsnotify.Write)
	// Only a new symbolic link, or a change of an entry in steps, changes the scope. Other files
	// appear and disappear with each atomic write.
	if !step && !t.now.watched[path] && (!content || ev.Op == fsnotify.Write || !leads(path)) {
		return content
	}
	changed := t.again() || content
	// Do not rely on the identity: a new file can have the inode number of the removed one. Of a
	// file that was moved away and back, events were missed.
	moved := ev.Op&^(fsnotify.Write|fsnotify.Chmod) != 0
	return changed || moved && (before || t.now.steps[path])
}

// leads reports whether an entry is a symbolic link.
func leads(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && isLink(info)
}

// again refreshes and logs errors. The next event causes another attempt.
func (t *tracker) again() bool {
	changed, err := t.refresh()
	if err != nil {
		t.log.Warn("cannot watch the configuration", "err", err)
	}
	return changed || err != nil
}
