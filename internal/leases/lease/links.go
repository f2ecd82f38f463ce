package lease

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"dcm/internal/sanitize"
)

// Links is the directory /dev/dcm. Each reservation has a directory in it, with links render0,
// render1, … to its device nodes. The DeviceAllow= of units names the links, since the nodes are not
// known when drop-ins are written. systemd follows the links when it starts a unit. The links also
// record which partitions a reservation has.
type Links struct{ Dir string }

const linkName = "render"

// Read returns the targets of each reservation's links, in their order. The map is empty, and not nil,
// before the first links are written.
func (l Links) Read() (map[string][]string, error) {
	out := make(map[string][]string)
	reservations, err := os.ReadDir(l.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot read the reservations' links: %w", err)
	}
	for _, r := range reservations {
		if name := r.Name(); r.IsDir() && sanitize.Text(name) == name { // otherwise it is no reservation
			if out[name], err = l.of(name); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func (l Links) of(name string) ([]string, error) {
	var nodes []string
	for i := 0; ; i++ {
		to, err := os.Readlink(filepath.Join(l.Dir, name, linkName+strconv.Itoa(i)))
		if errors.Is(err, fs.ErrNotExist) {
			return nodes, nil
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read the reservations' links: %w", err)
		}
		nodes = append(nodes, sanitize.Text(to))
	}
}

// Write creates the links and removes all others. It does not touch links that are correct, and
// replaces each other link atomically.
func (l Links) Write(want map[string][]string) error {
	have, err := l.Read()
	if err != nil {
		return err
	}
	var errs []error
	for name, nodes := range want {
		if !slices.Equal(have[name], nodes) || !l.clean(name, len(nodes)) {
			errs = append(errs, l.write(name, nodes))
		}
	}
	for name := range have {
		if _, ok := want[name]; !ok {
			errs = append(errs, os.RemoveAll(filepath.Join(l.Dir, name)))
		}
	}
	if len(want) == 0 {
		if err := os.Remove(l.Dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("cannot make the reservations' links: %w", err)
	}
	return nil
}

// clean reports whether the directory has n entries, without remains of an interrupted write.
func (l Links) clean(name string, n int) bool {
	entries, err := os.ReadDir(filepath.Join(l.Dir, name))
	return err == nil && len(entries) == n
}

func (l Links) write(name string, nodes []string) error {
	dir := filepath.Join(l.Dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		n, err := strconv.Atoi(strings.TrimPrefix(e.Name(), linkName))
		if err != nil || n < 0 || n >= len(nodes) {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	for i, node := range nodes {
		path := filepath.Join(dir, linkName+strconv.Itoa(i))
		if to, err := os.Readlink(path); err == nil && to == node {
			continue
		}
		next := filepath.Join(dir, ".new")
		if err := os.Symlink(node, next); err != nil {
			return err
		}
		if err := os.Rename(next, path); err != nil {
			return err
		}
	}
	return nil
}
