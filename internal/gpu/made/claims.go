package made

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"dcm/internal/gpu/partition"
	"dcm/internal/sanitize"
)

// Claims are the directories below [Dir], one for each instance of a lease or service, and for each mode that
// leases have set. Each has links to the device nodes. The kernel removes them at a reboot, as it does the
// instances and modes.
type Claims struct{ Dir string }

// List returns the claims. A directory with another name is ignored.
func (c Claims) List() ([]Name, error) {
	entries, err := os.ReadDir(c.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the instances of leases: %w", err)
	}
	var out []Name
	for _, e := range entries {
		if n, err := Parse(sanitize.Text(e.Name())); err == nil {
			out = append(out, n)
		}
	}
	return out, nil
}

// Made returns what is claimed, by GPU.
func (c Claims) Made() map[partition.Address]partition.Made {
	names, _ := c.List() // without the directory there is nothing
	out := make(map[partition.Address]partition.Made)
	for _, n := range names {
		m := out[n.GPU]
		if n.IsMode() {
			m.Compute, m.Rest = partition.Compute(n.Profile), n.Rest
		} else {
			m.Instances = append(m.Instances, n.Instance())
		}
		out[n.GPU] = m
	}
	return out
}

func (c Claims) has(n Name) bool {
	_, err := os.Stat(filepath.Join(c.Dir, n.String()))
	return err == nil
}

func (c Claims) add(n Name) error {
	if err := os.MkdirAll(filepath.Join(c.Dir, n.String()), 0o755); err != nil {
		return fmt.Errorf("cannot claim an instance: %w", err)
	}
	return nil
}

// ending is the file in the directory of a claim whose unit is being stopped. Its content is why the last stop
// has not destroyed the instance, or switched the GPU back.
const ending = "ending"

// end records that the unit of a claim is being stopped. It reports whether there is a claim.
func (c Claims) end(n Name) (bool, error) {
	name := filepath.Join(c.Dir, n.String(), ending)
	if _, err := os.Stat(name); err == nil {
		return true, nil // an earlier stop has failed
	}
	err := os.WriteFile(name, nil, 0o644)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot record the end of an instance: %w", err)
	}
	return true, nil
}

// recordFailure records why a stop has not destroyed the instance, or switched the GPU back.
func (c Claims) recordFailure(n Name, why error) error {
	if err := os.WriteFile(filepath.Join(c.Dir, n.String(), ending), []byte(why.Error()), 0o644); err != nil {
		return fmt.Errorf("cannot record the end of a claim: %w", err)
	}
	return nil
}

// clearFailure removes what recordFailure has written: leases use the mode again.
func (c Claims) clearFailure(n Name) error {
	if err := os.Remove(filepath.Join(c.Dir, n.String(), ending)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot use a claim again: %w", err)
	}
	return nil
}

// Failures returns why claims still exist after the stop of their units.
func (c Claims) Failures() []string {
	names, _ := c.List() // without the directory there is nothing
	var out []string
	for _, n := range names {
		if why, err := os.ReadFile(filepath.Join(c.Dir, n.String(), ending)); err == nil && len(why) > 0 {
			out = append(out, sanitize.Text(string(why)))
		}
	}
	return out
}

// endingOn returns the claims of instances of a GPU whose units are being stopped.
func (c Claims) endingOn(gpu partition.Address) ([]Name, error) {
	all, err := c.List()
	return slices.DeleteFunc(all, func(n Name) bool {
		_, err := os.Stat(filepath.Join(c.Dir, n.String(), ending))
		return err != nil || n.GPU != gpu || n.IsMode()
	}), err
}

func (c Claims) remove(n Name) error {
	if err := os.RemoveAll(filepath.Join(c.Dir, n.String())); err != nil {
		return fmt.Errorf("cannot remove the claim of an instance: %w", err)
	}
	return nil
}

// link links the device nodes of an instance, the partition's own node last.
func (c Claims) link(n Name, nodes []string) error {
	if len(nodes) == 0 || len(nodes) > links {
		return fmt.Errorf("%s on %s: unknown number of device nodes (found %d, want 1 to %d)", n.Profile, n.GPU, len(nodes), links)
	}
	return c.linkFrom(n, links-len(nodes), nodes)
}

// linkFrom links the device nodes by consecutive numbers from the first.
func (c Claims) linkFrom(n Name, first int, nodes []string) error {
	for i, node := range nodes {
		if err := os.Symlink(node, filepath.Join(c.Dir, n.String(), linkName(first+i))); err != nil {
			return fmt.Errorf("cannot link a device node: %w", err)
		}
	}
	return nil
}

// switchedPrefix begins the name of the file whose time is that of the last switch back of a GPU.
const switchedPrefix = "switched_"

// Since returns when the mode was set or, without a claim, when the GPU was last switched back. It
// returns the zero time if leases have not switched the GPU since boot.
func (c Claims) Since(n Name) time.Time {
	for _, name := range []string{n.String(), switchedPrefix + string(n.GPU)} {
		if info, err := os.Stat(filepath.Join(c.Dir, name)); err == nil {
			return info.ModTime()
		}
	}
	return time.Time{}
}

// switchedBack records the time of a switch back.
func (c Claims) switchedBack(n Name) error {
	name := filepath.Join(c.Dir, switchedPrefix+string(n.GPU))
	err := os.Remove(name)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = os.WriteFile(name, nil, 0o644)
	}
	if err != nil {
		return fmt.Errorf("cannot record the time of a switch: %w", err)
	}
	return nil
}

// relink replaces the links of a mode by those to the partitions' nodes.
func (c Claims) relink(n Name, nodes []string) error {
	if len(nodes) == 0 {
		return fmt.Errorf("%s on %s: the partitions have no device nodes", n.Profile, n.GPU)
	}
	for i := range partition.MaxPartitions {
		if err := os.Remove(filepath.Join(c.Dir, n.String(), linkName(i))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot remove a link: %w", err)
		}
	}
	return c.linkFrom(n, 0, nodes)
}
