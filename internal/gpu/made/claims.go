package made

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"dcm/internal/gpu/partition"
	"dcm/internal/sanitize"
)

// Claims are the directories below [Dir], one for each instance of a lease or service. Each has links
// to the device nodes. The kernel removes them at a reboot, as it does the instances.
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

// Instances returns the claimed instances by GPU.
func (c Claims) Instances() map[partition.Address][]partition.Instance {
	names, _ := c.List() // without the directory there are none
	out := make(map[partition.Address][]partition.Instance)
	for _, n := range names {
		out[n.GPU] = append(out[n.GPU], n.Instance())
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
	for i, node := range nodes {
		if err := os.Symlink(node, filepath.Join(c.Dir, n.String(), linkName(links-len(nodes)+i))); err != nil {
			return fmt.Errorf("cannot link a device node: %w", err)
		}
	}
	return nil
}
