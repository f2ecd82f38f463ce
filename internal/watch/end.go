package watch

import (
	"io"
	"time"
)

// putAway is ample for the kernel to put away watches that were removed.
const putAway = 50 * time.Millisecond

// letGo closes an inotify that has no watches any more. The kernel has who closes one wait
// until its watches are put away (fsnotify_destroy_group), and if that is asked for while
// the files' part of it is under way, for some 15 ms: the second of two grace periods in a
// row is a slow one. So it is closed a moment after they were removed; a process that ends
// before has it closed by then, and its end is what a restart waits for.
func letGo(inotify io.Closer) {
	time.AfterFunc(putAway, func() { inotify.Close() })
}
