package leaseservice

import (
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// unitSpace is the free space in /run, in bytes, that systemd needs for a unit with its settings.
const unitSpace = 64 << 10

// freeSpace returns the free space of a file system in bytes, the largest number if that is not known.
func freeSpace(dir string) uint64 {
	var fs unix.Statfs_t
	if unix.Statfs(dir, &fs) != nil {
		return math.MaxUint64
	}
	return fs.Bavail * uint64(fs.Bsize)
}

// explainFull adds the cause to the error of a start if /run is full: systemd cannot write the unit, and
// reports only that the unit is not found.
func explainFull(err error, free uint64) error {
	if free >= unitSpace {
		return err
	}
	return fmt.Errorf("/run has no space left for the unit (found %d KiB, want %d KiB): %w\nhint: delete large files below /run", free>>10, unitSpace>>10, err)
}
