package amdgpu

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"dcm/internal/gpu"
	"dcm/internal/linux/statefile"
	"dcm/internal/linux/sysfs"
)

// FactDir sets the directory in which a run stores what the driver has shown: the modes that each
// GPU accepts, and the check before a switch. Without it they are unknown, except for the
// entry of the current selection.
func FactDir(dir string) Option { return func(s *settings) { s.factDir = dir } }

// driverFacts is a directory of facts that are valid for one load of the driver, each in a
// file. Only a run stores them.
type driverFacts struct {
	roots gpu.Roots
	dir   string // "" for none
}

// driverFact is the content of such a file.
type driverFact[T any] struct {
	Version int    `json:"version"`
	Driver  string `json:"driver"` // load of the driver that showed the fact
	Fact    T      `json:"fact"`
}

func factFile[T any](d driverFacts, name string) statefile.File[driverFact[T]] {
	return statefile.File[driverFact[T]]{
		Path: filepath.Join(d.dir, name+".json"), Version: 1,
		Field: func(f *driverFact[T]) *int { return &f.Version },
	}
}

// storable reports whether a fact can be stored: there is a directory, and the driver is loaded.
func (d driverFacts) storable() bool { return d.dir != "" && d.driverLoad() != "" }

// storeFact stores a fact for this load of the driver, if it is storable.
func storeFact[T any](d driverFacts, name string, fact T) error {
	if !d.storable() {
		return nil
	}
	if err := os.MkdirAll(d.dir, 0o755); err != nil {
		return err
	}
	return factFile[T](d, name).Write(driverFact[T]{Driver: d.driverLoad(), Fact: fact})
}

// storedFact returns a fact of this load of the driver; ok is false if there is none, or if
// the file cannot be read: the next run stores it again.
func storedFact[T any](d driverFacts, name string) (fact T, ok bool) {
	if d.dir == "" {
		return fact, false
	}
	f, err := factFile[T](d, name).Read()
	if err != nil || f == nil || f.Driver == "" || f.Driver != d.driverLoad() {
		return fact, false
	}
	return f.Fact, true
}

// driverLoad returns a text that differs between loads of the driver: the number of its
// directory, which sysfs does not use again before a reboot, and the version of its source.
// It is "" while the driver is not loaded.
func (d driverFacts) driverLoad() string {
	var st unix.Stat_t
	if unix.Stat(d.roots.SysPath("module", driver), &st) != nil {
		return ""
	}
	version, err := sysfs.Optional(d.roots.SysPath("module", driver, "srcversion"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return strings.TrimSpace(fmt.Sprint(st.Ino, " ", version))
}
