package openfiles

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"dcm/internal/linux/sysfs"
	"dcm/internal/sorting"
)

// Scan looks at the open files of every process. Anybody may have as many as he
// likes, and one of a file system whose server does not answer, so each process has
// its own time, those with few files come first, several are looked at at once, and
// who could not be looked at is told by name.
type Scan struct {
	proc         string
	nodes        *Nodes
	perProcess   time.Duration // the longest that one process is looked at
	workers      int           // how many at once
	withMappings bool          // what is mapped into memory counts too

	found   map[int][]openFile
	skipped map[int]string // why
	seen    map[int]bool
}

// New returns a look at the processes of /proc for those nodes, each given its time.
func NewScan(proc string, nodes *Nodes, each time.Duration) *Scan {
	return &Scan{proc: proc, nodes: nodes, perProcess: each, workers: min(4, runtime.GOMAXPROCS(0)),
		found: make(map[int][]openFile), skipped: make(map[int]string), seen: make(map[int]bool)}
}

// use is one open file, or mapping, of a node.
type openFile struct {
	pid, fd int // of the thread whose table it is in; fd is -1 for a mapping
	device  string
	weight  int // what it adds to the driver's use count
}

// look is what one process showed.
type result struct {
	pid      int
	files    []openFile
	reason   string // it could not be looked at as a whole
	deferred bool   // it has more files than were to be looked at, and was not
}

// How much of a directory is read at once. Those who do not fill half of the less of them,
// with some eighty open files, are looked at before all others.
const (
	smallChunk = 4 << 10
	largeChunk = 32 << 10
)

const (
	reasonDenied  = "permission denied"
	reasonTimeout = "timed out before all its open files were inspected"
	reasonHung    = "reading its open files hangs"
)

// All looks at the processes until there are no new ones: what a process has open
// its children have too, when it is gone.
func (s *Scan) ScanAll(ctx context.Context) error {
	const rounds = 5 // one who forks without end is not outrun
	own := os.Getpid()
	for range rounds {
		pids, err := sysfs.Numbers(s.proc)
		if err != nil {
			return err
		}
		fresh := slices.DeleteFunc(pids, func(pid int) bool { return s.seen[pid] || pid == own })
		if len(fresh) == 0 {
			return nil
		}
		for _, pid := range fresh {
			s.seen[pid] = true
		}
		many := s.scan(ctx, fresh, smallChunk)
		s.scan(ctx, s.byFileCount(many), largeChunk)
	}
	return nil
}

// order puts those with few open files first. The size of the directory is their
// number (proc_fd_getattr, Linux 6.2 and later).
func (s *Scan) byFileCount(pids []int) []int {
	type sized struct {
		pid   int
		files int64
	}
	all := make([]sized, len(pids))
	for i, pid := range pids {
		var st unix.Stat_t
		if unix.Stat(s.dir(pid, "fd"), &st) == nil {
			all[i].files = st.Size
		}
		all[i].pid = pid
	}
	sorting.By(all, func(a, b sized) int {
		return cmp.Or(cmp.Compare(a.files, b.files), cmp.Compare(a.pid, b.pid))
	})
	for i, a := range all {
		pids[i] = a.pid
	}
	return pids
}

func (s *Scan) dir(pid int, name string) string {
	return filepath.Join(s.proc, strconv.Itoa(pid), name)
}

// Mapped looks at the mappings of the processes that were looked at before.
func (s *Scan) ScanMappings(ctx context.Context) {
	s.withMappings = true
	pids := make([]int, 0, len(s.seen))
	for pid := range s.seen {
		if s.skipped[pid] == "" {
			pids = append(pids, pid)
		}
	}
	s.found = make(map[int][]openFile)
	s.scan(ctx, s.byFileCount(pids), largeChunk)
}

// Seen tells whether the process was looked at.
func (s *Scan) Seen(pid int) bool { return s.seen[pid] }

// Found tells whether anybody has a node open.
func (s *Scan) FoundAny() bool { return len(s.found) > 0 }

// Only tells whether the process has nothing open but that node.
func (s *Scan) HasOnly(pid int, name string) bool {
	return !slices.ContainsFunc(s.found[pid], func(u openFile) bool { return u.device != name })
}

// Attribute adds what somebody else knows: that a process uses a node.
func (s *Scan) Attribute(pid int, name string) {
	if !slices.ContainsFunc(s.found[pid], func(u openFile) bool { return u.device == name }) {
		s.found[pid] = append(s.found[pid], openFile{pid, -1, name, 0})
	}
}
