package amdgpu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"dcm/internal/attr"
	"dcm/internal/foreign"
	"dcm/internal/gpu"
)

// Usage looks who uses the GPUs. It takes no longer than the node's limit, and for
// no process longer than that for one; who is left out is in Unlooked.
func (n *Node) Usage(ctx context.Context) (gpu.Usage, error) {
	u, err := attr.Within(ctx, func() (gpu.Usage, error) { return n.usage(ctx) })
	if err != nil {
		return gpu.Usage{}, fmt.Errorf("cannot look for processes that use the GPUs: %w", err)
	}
	return u, nil
}

func (n *Node) usage(ctx context.Context) (gpu.Usage, error) {
	nodes, err := n.deviceNodes()
	if err != nil {
		return gpu.Usage{}, err
	}
	s := &scan{
		proc: n.roots.Proc, nodes: nodes, each: n.lookEach, width: lookWidth(),
		found: make(map[int][]use), unlooked: make(map[int]string), seen: make(map[int]bool),
	}
	limit, cancel := context.WithTimeout(ctx, n.lookTime(ctx))
	defer cancel()
	if err := s.all(limit); err != nil {
		return gpu.Usage{}, err
	}
	var u gpu.Usage
	if err := n.tally(&u, s); err != nil {
		return gpu.Usage{}, err
	}
	// Mappings cost as much again, and mostly there is nothing to explain.
	if !u.Counted && len(s.found) == 0 || u.Unseen() > 0 {
		s.again(limit)
		if err := n.tally(&u, s); err != nil {
			return gpu.Usage{}, err
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
func (n *Node) tally(u *gpu.Usage, s *scan) error {
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
	text, err := attr.Read(n.sys("module", driver, "refcnt"))
	if err != nil {
		return 0, nil, false
	}
	if count, err = strconv.Atoi(text); err != nil {
		return 0, nil, false
	}
	entries, _ := os.ReadDir(n.sys("module", driver, "holders"))
	for _, e := range entries {
		modules = append(modules, foreign.Text(e.Name()))
	}
	return count, modules, true
}

func (n *Node) describeUnlooked(why map[int]string) []gpu.Unlooked {
	var out []gpu.Unlooked
	for pid, reason := range why {
		dir := n.proc(pid, "")
		var st, files unix.Stat_t
		if unix.Stat(dir, &st) != nil {
			continue // it has ended
		}
		_ = unix.Stat(n.proc(pid, "fd"), &files)
		out = append(out, gpu.Unlooked{PID: pid, Command: command(dir), UID: int(st.Uid), Files: int(files.Size), Why: reason, Late: reason != notAllowed})
	}
	slices.SortFunc(out, func(a, b gpu.Unlooked) int { return a.PID - b.PID })
	return out
}

// Tally is the module's use count, with the KFD's list.
func (n *Node) Tally() string {
	count, modules, ok := n.useCount()
	compute, _ := numbers(n.sys("class/kfd/kfd/proc"))
	slices.Sort(compute)
	return fmt.Sprint(count, modules, ok, compute)
}
