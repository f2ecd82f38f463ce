package gpu

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"dcm/internal/gpu/partition"
	"dcm/internal/linux/sysfs"
	"dcm/internal/sanitize"
)

// Module is one of the kernel's, as sysfs shows it (Documentation/ABI/testing/sysfs-module).
type Module struct{ Sys, Name string }

func (m Module) file(name string) string { return filepath.Join(m.Sys, "module", m.Name, name) }

// State is "coming", "live", "going", or "" of one that is not loaded.
func (m Module) State() string {
	state, _ := sysfs.Optional(m.file("initstate"))
	return state
}

// Uses reads what it tells of its use: how often, and by which modules. A driver that is
// built in counts nothing.
func (m Module) UseCount() (count int, modules []string, ok bool) {
	text, err := sysfs.Read(m.file("refcnt"))
	if err != nil {
		return 0, nil, false
	}
	if count, err = strconv.Atoi(text); err != nil {
		return 0, nil, false
	}
	entries, _ := os.ReadDir(m.file("holders"))
	for _, e := range entries {
		modules = append(modules, sanitize.Text(e.Name()))
	}
	return count, modules, true
}

// Pulse is what changes first when GPUs of the driver come up: its state, and what there
// is of each of them.
func (m Module) Progress(gpus []partition.Address, attributes ...string) (signs string, live bool) {
	state := m.State()
	var b strings.Builder
	b.WriteString(state)
	for _, a := range gpus {
		for _, name := range attributes {
			_, err := os.Lstat(AttributePath(m.Sys, a, name))
			fmt.Fprint(&b, err == nil)
		}
	}
	return b.String(), state == "live"
}
