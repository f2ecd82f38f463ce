package lease

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"dcm/internal/sanitize"
)

// CgroupLimits are the effective limits of a cgroup: the lowest of its own and its ancestors'. A
// process that is moved into a scope keeps them only if they are set on the scope. There, a limit that
// applied to several processes together applies to the moved process alone.
type CgroupLimits struct {
	Memory, MemoryHigh, Swap uint64   // bytes; math.MaxUint64 for no limit
	Tasks                    uint64   // math.MaxUint64 for no limit
	CPU                      uint64   // microseconds of processor time per second; math.MaxUint64 for no limit
	CPUs                     string   // the permitted processors, "0-3,8"; "" for all
	Others                   []string // limits that a scope cannot take over: "io.max of user-1000.slice"
}

// unbounded is the value of a limit that is not set.
const unbounded = math.MaxUint64

// ReadBounds reads the limits from the files of the cgroup and its ancestors (cgroup-v2.rst), without
// those of the root.
func ReadBounds(root, cgroup string) (CgroupLimits, error) {
	b := CgroupLimits{Memory: unbounded, MemoryHigh: unbounded, Swap: unbounded, Tasks: unbounded, CPU: unbounded}
	for dir := filepath.Clean("/" + cgroup); dir != "/"; dir = filepath.Dir(dir) {
		if err := b.apply(filepath.Join(root, dir), sanitize.Text(filepath.Base(dir))); err != nil {
			return b, fmt.Errorf("cannot read the limits of cgroup %s: %w", sanitize.Text(dir), err)
		}
	}
	return b, b.effectiveCPUs(root, cgroup)
}

// effectiveCPUs replaces the processors in cpuset.cpus by those that the kernel grants: a cgroup may
// name processors that its parent does not have.
func (b *CgroupLimits) effectiveCPUs(root, cgroup string) error {
	for dir := filepath.Clean("/" + cgroup); b.CPUs != "" && dir != "/"; dir = filepath.Dir(dir) {
		cpus, err := attribute(filepath.Join(root, dir), "cpuset.cpus.effective")
		if err != nil {
			return fmt.Errorf("cannot read the limits of cgroup %s: %w", sanitize.Text(dir), err)
		}
		if cpus != "" {
			b.CPUs = cpus
			return nil
		}
	}
	return nil
}

// apply lowers the limits to those of one cgroup.
func (b *CgroupLimits) apply(dir, name string) error {
	for _, l := range []struct {
		file string
		to   *uint64
	}{
		{"memory.max", &b.Memory}, {"memory.high", &b.MemoryHigh}, {"memory.swap.max", &b.Swap}, {"pids.max", &b.Tasks},
	} {
		text, err := attribute(dir, l.file)
		if err != nil {
			return err
		}
		if n, err := strconv.ParseUint(text, 10, 64); err == nil { // no number: "max", which is no limit
			*l.to = min(*l.to, n)
		}
	}
	quota, err := attribute(dir, "cpu.max")
	if err != nil {
		return err
	}
	var of, per uint64
	if n, _ := fmt.Sscan(quota, &of, &per); n == 2 && per > 0 { // no quota: "max 100000"
		b.CPU = min(b.CPU, of*1_000_000/per)
	}
	cpus, err := attribute(dir, "cpuset.cpus")
	if b.CPUs == "" {
		b.CPUs = cpus
	}
	return errors.Join(err, b.note(dir, name))
}

// note records limits that a scope cannot take over.
func (b *CgroupLimits) note(dir, name string) error {
	for _, of := range []struct{ file, usual string }{
		{"io.max", ""}, {"io.latency", ""}, {"io.weight", "default 100"}, {"cpu.weight", "100"}, {"cpuset.mems", ""}, {"memory.zswap.max", "max"},
	} {
		text, err := attribute(dir, of.file)
		if err != nil {
			return err
		}
		if text != of.usual && text != "" {
			b.Others = append(b.Others, of.file+" of "+name)
		}
	}
	text, err := attribute(dir, "dmem.max")
	for line := range strings.SplitSeq(text, `\n`) { // attribute has escaped the newlines
		if line != "" && !strings.HasSuffix(line, " max") {
			b.Others = append(b.Others, "dmem.max of "+name)
			break
		}
	}
	return err
}

// attribute reads a file of a cgroup. It returns "" if the controller is not enabled.
func attribute(dir, file string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, file))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return sanitize.Text(strings.TrimSpace(string(text))), sanitize.Error(err)
}
