package openfiles

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"dcm/internal/linux/procstat"
	"dcm/internal/linux/sysfs"
	"dcm/internal/sorting"
)

// Scan inspects the open files of every process. A user can open any number of files, and
// files of a file system whose server hangs. So each process has its own time limit,
// processes with few files come first, several workers run, and every process that could not
// be inspected is reported.
type Scan struct {
	proc         string
	nodes        *Nodes
	perProcess   time.Duration // time limit of one process
	workers      int           // number of concurrent workers
	withMappings bool          // memory mappings count too
	mounts       func() *mounts

	found   map[int][]openFile
	started map[int]string // start time of the processes that have a node open, see procstat.StartTime
	skipped map[int]string // reason by PID
	seen    map[int]bool
}

// NewScan returns a scan of the processes below proc. each is the time limit of one process.
func NewScan(proc string, nodes *Nodes, each time.Duration) *Scan {
	return &Scan{proc: proc, nodes: nodes, perProcess: each, workers: min(4, runtime.GOMAXPROCS(0)),
		mounts: sync.OnceValue(func() *mounts { return readMounts(filepath.Join(proc, "self", "mountinfo")) }),
		found:  make(map[int][]openFile), started: make(map[int]string), skipped: make(map[int]string), seen: make(map[int]bool)}
}

// openFile is one open file, or mapping, of a node.
type openFile struct {
	pid, fd int // pid of the thread that owns the descriptor table; fd is -1 for a mapping
	device  string
	weight  int // its part of the driver's use count
}

// result is the result of inspecting one process.
type result struct {
	pid      int
	files    []openFile
	started  string // start time of a process with files
	reason   string // why it could not be inspected completely
	deferred bool   // it has too many files for smallChunk and was not inspected
}

// Bytes of a directory to read at a time. Processes that fill less than half of smallChunk,
// about 80 open files, are inspected first.
const (
	smallChunk = 4 << 10
	largeChunk = 32 << 10
)

const (
	reasonDenied  = "permission denied"
	reasonTimeout = "timed out before all its open files were inspected"
	reasonHung    = "reading its open files hangs"
)

// ScanAll inspects all processes and repeats until it finds no new ones: a child may have
// inherited the files of a process that has ended.
func (s *Scan) ScanAll(ctx context.Context) error {
	const rounds = 5 // limits the effect of a process that forks forever
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

// byFileCount sorts processes by their number of open files, which is the size of the
// directory (proc_fd_getattr, Linux 6.2 and later).
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

// ScanMappings inspects all inspected processes again, with their memory mappings.
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

// Exists reports whether the process was inspected and has not ended.
func (s *Scan) Exists(pid int) bool { return s.seen[pid] && !s.ended(pid) }

// ended reports whether the process has ended since it was inspected. Another one may have its PID.
func (s *Scan) ended(pid int) bool {
	dir := s.dir(pid, "")
	started, known := s.started[pid]
	return procstat.Ended(dir) || known && procstat.Read(dir, procstat.StartTime) != started
}

// FoundAny reports whether a process has a node open.
func (s *Scan) FoundAny() bool { return len(s.found) > 0 }

// HasOnly reports whether the process has no other node open than name.
func (s *Scan) HasOnly(pid int, name string) bool {
	return !slices.ContainsFunc(s.found[pid], func(u openFile) bool { return u.device != name })
}

// Attribute adds a use of a node that another source reports.
func (s *Scan) Attribute(pid int, name string) {
	if !slices.ContainsFunc(s.found[pid], func(u openFile) bool { return u.device == name }) {
		s.found[pid] = append(s.found[pid], openFile{pid, -1, name, 0})
	}
}
