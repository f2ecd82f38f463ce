package opened

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

	"dcm/internal/attr"
	"dcm/internal/sorting"
)

// Scan looks at the open files of every process. Anybody may have as many as he
// likes, and one of a file system whose server does not answer, so each process has
// its own time, those with few files come first, several are looked at at once, and
// who could not be looked at is told by name.
type Scan struct {
	proc  string
	nodes *Nodes
	each  time.Duration // the longest that one process is looked at
	width int           // how many at once
	maps  bool          // what is mapped into memory counts too

	found    map[int][]use
	unlooked map[int]string // why
	seen     map[int]bool
}

// New returns a look at the processes of /proc for those nodes, each given its time.
func New(proc string, nodes *Nodes, each time.Duration) *Scan {
	return &Scan{proc: proc, nodes: nodes, each: each, width: min(4, runtime.GOMAXPROCS(0)),
		found: make(map[int][]use), unlooked: make(map[int]string), seen: make(map[int]bool)}
}

// use is one open file, or mapping, of a node.
type use struct {
	pid, fd int // of the thread whose table it is in; fd is -1 for a mapping
	device  string
	weight  int // what it adds to the driver's use count
}

// look is what one process showed.
type look struct {
	pid  int
	uses []use
	why  string // it could not be looked at as a whole
}

const (
	notAllowed = "it may not be looked at"
	notInTime  = "there was no time for all of its open files"
	noAnswer   = "a look at its open files does not return"
)

// All looks at the processes until there are no new ones: what a process has open
// its children have too, when it is gone.
func (s *Scan) All(ctx context.Context) error {
	const rounds = 5 // one who forks without end is not outrun
	for range rounds {
		pids, err := attr.Numbers(s.proc)
		if err != nil {
			return err
		}
		fresh := slices.DeleteFunc(pids, func(pid int) bool { return s.seen[pid] || pid == os.Getpid() })
		if len(fresh) == 0 {
			return nil
		}
		s.these(ctx, s.order(fresh))
	}
	return nil
}

// order puts those with few open files first. The size of the directory is their
// number (proc_fd_getattr, Linux 6.2 and later).
func (s *Scan) order(pids []int) []int {
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

// these looks at the processes in their order. A look that hangs is left to itself,
// and another one has its place.
func (s *Scan) these(ctx context.Context, pids []int) {
	results := make(chan look, len(pids))
	running := make(map[int]time.Time)
	tick := time.NewTicker(max(s.each/4, time.Millisecond))
	defer tick.Stop()
	next := 0
	for next < len(pids) || len(running) > 0 {
		for ; next < len(pids) && len(running) < s.width && ctx.Err() == nil; next++ {
			pid := pids[next]
			s.seen[pid] = true
			running[pid] = time.Now()
			go func() { results <- s.process(ctx, pid) }()
		}
		select {
		case l := <-results:
			if _, awaited := running[l.pid]; awaited {
				delete(running, l.pid)
				s.take(l)
			}
		case <-tick.C:
			s.abandon(running)
		case <-ctx.Done():
			for pid := range running {
				s.unlooked[pid] = notInTime
			}
			for _, pid := range pids[next:] {
				s.seen[pid] = true
				s.unlooked[pid] = notInTime
			}
			return
		}
	}
}

func (s *Scan) take(l look) {
	if len(l.uses) > 0 {
		s.found[l.pid] = append(s.found[l.pid], l.uses...)
	}
	if l.why != "" {
		s.unlooked[l.pid] = l.why
	}
}

// abandon gives those up that do not even notice that their time is over. On a busy
// host noticing takes a while.
func (s *Scan) abandon(running map[int]time.Time) {
	const notice = time.Second
	for pid, since := range running {
		if time.Since(since) > s.each+max(s.each, notice) {
			delete(running, pid)
			s.unlooked[pid] = noAnswer
		}
	}
}

// process looks at one process: at its open files, at those of its threads that
// have others, and, if that is asked for, at what it has mapped.
func (s *Scan) process(ctx context.Context, pid int) look {
	p := &prober{Scan: s, ctx: ctx, until: time.Now().Add(s.each), look: look{pid: pid}, buf: make([]byte, 32<<10)}
	p.files(pid, s.dir(pid, "fd"))
	p.threads()
	if s.maps {
		p.mappings()
	}
	return p.look
}

// Mapped looks at the mappings of the processes that were looked at before.
func (s *Scan) Mapped(ctx context.Context) {
	s.maps = true
	pids := make([]int, 0, len(s.seen))
	for pid := range s.seen {
		if s.unlooked[pid] == "" {
			pids = append(pids, pid)
		}
	}
	s.found = make(map[int][]use)
	s.these(ctx, s.order(pids))
}

// Seen tells whether the process was looked at.
func (s *Scan) Seen(pid int) bool { return s.seen[pid] }

// Found tells whether anybody has a node open.
func (s *Scan) Found() bool { return len(s.found) > 0 }

// Also adds what somebody else knows: that a process uses a node.
func (s *Scan) Also(pid int, name string) {
	if !slices.ContainsFunc(s.found[pid], func(u use) bool { return u.device == name }) {
		s.found[pid] = append(s.found[pid], use{pid, -1, name, 0})
	}
}
