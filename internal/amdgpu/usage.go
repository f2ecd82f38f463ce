package amdgpu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Usage is what there is to see of who uses the GPUs, from two sides: the open files
// of the processes, and what the driver itself counts. The driver counts more: an
// open file that was sent to a socket and not yet received, one that only the kernel
// keeps, a buffer shared with another driver.
type Usage struct {
	Holders  []Holder
	Unlooked []Unlooked // processes that could not be looked at, or not in time

	Counted bool     // the driver is a module, whose use count can be read
	Count   int      // the use count, of /sys/module/amdgpu/refcnt
	Modules []string // those of the kernel that use the driver, each of which is counted
	Seen    int      // what the holders' open files add to the count
	Lost    []int    // processes that the KFD lists and that are not to be found
}

// Unseen is how much of the use count nothing that was seen accounts for.
//
// A driver that nobody uses counts the modules that use it, and nothing else: its
// GPUs, its own threads and the KFD are no use of it. On some hosts it is held from
// within besides, by a console or a sound device; what it counts there when nobody
// uses it is known only after a load (see [Usage.Idle]).
func (u Usage) Unseen() int { return max(0, u.Count-len(u.Modules)-u.Seen) }

// Nobody reports whether the driver itself bears witness that no process uses it.
// idle is what it is known to count, beside modules, when that is so.
func (u Usage) Nobody(idle int) bool {
	return u.Counted && len(u.Holders)+len(u.Lost) == 0 && u.Unseen() <= idle
}

// Unlooked is a process whose open files could not all be looked at.
type Unlooked struct {
	PID     int
	Command string
	UID     int
	Files   int    // how many it has open; 0 where the kernel does not tell
	Why     string // "there was no time for all of its open files"
	Late    bool   // it may be looked at, but took too long
}

func (u Unlooked) String() string {
	text := fmt.Sprintf("%s (pid %d, user %d", u.Command, u.PID, u.UID)
	if u.Files > 0 {
		text += fmt.Sprintf(", %d open files", u.Files)
	}
	return text + "): " + u.Why
}

// PartialError names the processes that could not be looked at.
type PartialError struct{ Unlooked []Unlooked }

func (e *PartialError) Error() string {
	const most = 3
	var text []string
	for _, u := range e.Unlooked[:min(most, len(e.Unlooked))] {
		text = append(text, u.String())
	}
	if more := len(e.Unlooked) - most; more > 0 {
		text = append(text, fmt.Sprintf("and %d more", more))
	}
	return ErrPartial.Error() + ": " + strings.Join(text, "; ")
}

// Is makes it [ErrPartial].
func (e *PartialError) Is(target error) bool { return target == ErrPartial }

func (e *PartialError) cure() string {
	return "End these processes, or have them close files; dcm needs to see who has a GPU open."
}

// Usage looks who uses the GPUs. It takes no longer than the node's limit, and for
// no process longer than that for one; who is left out is in Unlooked.
func (n *Node) Usage(ctx context.Context) (Usage, error) {
	u, err := within(ctx, func() (Usage, error) { return n.usage(ctx) })
	if err != nil {
		return Usage{}, fmt.Errorf("cannot look for processes that use the GPUs: %w", err)
	}
	return u, nil
}

func (n *Node) usage(ctx context.Context) (Usage, error) {
	nodes, err := n.deviceNodes()
	if err != nil {
		return Usage{}, err
	}
	s := &scan{
		proc: n.roots.Proc, nodes: nodes, each: n.lookEach, width: lookWidth(),
		found: make(map[int][]use), unlooked: make(map[int]string), seen: make(map[int]bool),
	}
	limit, cancel := context.WithTimeout(ctx, n.lookTime(ctx))
	defer cancel()
	if err := s.all(limit); err != nil {
		return Usage{}, err
	}
	var u Usage
	if err := n.tally(&u, s); err != nil {
		return Usage{}, err
	}
	// Mappings cost as much again, and mostly there is nothing to explain.
	if !u.Counted && len(s.found) == 0 || u.Unseen() > 0 {
		s.again(limit)
		if err := n.tally(&u, s); err != nil {
			return Usage{}, err
		}
	}
	u.Holders, u.Unlooked = n.describeHolders(s.found), n.describeUnlooked(s.unlooked)
	return u, nil
}

// lookTime leaves the caller the time to act on the answer.
func (n *Node) lookTime(ctx context.Context) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return min(n.lookAll, time.Until(end)/2)
	}
	return n.lookAll
}

// tally adds what the driver tells to what was seen.
func (n *Node) tally(u *Usage, s *scan) error {
	compute, err := numbers(n.sys("class/kfd/kfd/proc"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	u.Lost = nil
	for _, pid := range compute {
		switch {
		case pid == os.Getpid():
		case s.seen[pid]:
			if !slices.ContainsFunc(s.found[pid], func(v use) bool { return v.device == "/dev/kfd" }) {
				s.found[pid] = append(s.found[pid], use{pid, -1, "/dev/kfd", 0})
			}
		default:
			u.Lost = append(u.Lost, pid)
		}
	}
	u.Count, u.Modules, u.Counted = n.useCount()
	u.Seen = accounted(s.found)
	return nil
}

// accounted is what open files add to the use count, each counted once however many
// processes have it.
func accounted(found map[int][]use) int {
	byDevice := make(map[string][]use)
	sum := 0
	for _, uses := range found {
		for _, u := range uses {
			if !slices.ContainsFunc(byDevice[u.device], func(other use) bool { return sameFile(u, other) }) {
				byDevice[u.device] = append(byDevice[u.device], u)
				sum += u.weight
			}
		}
	}
	return sum
}

// useCount reads what the module tells of its use (Documentation/ABI/testing/
// sysfs-module). A driver that is built in counts nothing.
func (n *Node) useCount() (count int, modules []string, ok bool) {
	text, err := read(n.sys("module", driver, "refcnt"))
	if err != nil {
		return 0, nil, false
	}
	if count, err = strconv.Atoi(text); err != nil {
		return 0, nil, false
	}
	entries, _ := os.ReadDir(n.sys("module", driver, "holders"))
	for _, e := range entries {
		modules = append(modules, e.Name())
	}
	return count, modules, true
}

func (n *Node) describeUnlooked(why map[int]string) []Unlooked {
	var out []Unlooked
	for pid, reason := range why {
		dir := n.proc(pid, "")
		var st, files unix.Stat_t
		if unix.Stat(dir, &st) != nil {
			continue // it has ended
		}
		_ = unix.Stat(n.proc(pid, "fd"), &files)
		out = append(out, Unlooked{pid, command(dir), int(st.Uid), int(files.Size), reason, reason != notAllowed})
	}
	slices.SortFunc(out, func(a, b Unlooked) int { return a.PID - b.PID })
	return out
}
