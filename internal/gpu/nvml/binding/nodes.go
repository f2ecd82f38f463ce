package binding

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"dcm/internal/gpu/nvml"
)

// Roots are the mount points "/sys", "/dev" and "/proc" on a host.
type Roots struct{ Sys, Dev, Proc string }

// control is the device node through which the library calls the driver.
const control = "nvidiactl"

// MissingNode returns a device node that the library needs for a read of that many GPUs and
// that does not exist, or "". A capability node with the number of an earlier driver load
// counts as missing.
func (r Roots) MissingNode(gpus int) string {
	at := filepath.Join(r.Dev, control)
	if _, err := os.Stat(at); err != nil {
		return at
	}
	found, _ := filepath.Glob(filepath.Join(r.Dev, "nvidia[0-9]*")) // the pattern is valid
	if len(found) < gpus {
		return filepath.Join(r.Dev, "nvidia[0-9]*")
	}
	return r.missingCapability()
}

// missingCapability returns a missing capability node. Without the node of mig/config, only
// a process with CAP_SYS_ADMIN can list GPU instances.
func (r Roots) missingCapability() string {
	major, ok := r.capabilityMajor()
	if !ok {
		return ""
	}
	missing := ""
	_ = filepath.WalkDir(filepath.Join(r.Proc, "driver/nvidia/capabilities"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return nil // an instance that was destroyed in the meantime
		}
		minor, ok := numberIn(path, "DeviceFileMinor:")
		if !ok {
			return nil
		}
		node := filepath.Join(r.Dev, fmt.Sprintf("nvidia-caps/nvidia-cap%d", minor))
		var st unix.Stat_t
		err = unix.Stat(node, &st)
		stale := err == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev != unix.Mkdev(major, minor)
		if stale || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
			missing = node
			return fs.SkipAll
		}
		return nil
	})
	return missing
}

// capabilityMajor returns the major number of the capability nodes.
func (r Roots) capabilityMajor() (uint32, bool) {
	f, err := os.Open(filepath.Join(r.Proc, "devices"))
	if err != nil {
		return 0, false
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if number, name, ok := strings.Cut(strings.TrimSpace(lines.Text()), " "); ok && name == "nvidia-caps" {
			major, err := strconv.ParseUint(number, 10, 32)
			return uint32(major), err == nil
		}
	}
	return 0, false
}

// numberIn returns the number after a key in a text file.
func numberIn(path, key string) (uint32, bool) {
	f, err := os.Open(path)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	const most = 4 << 10 // ten times the usual size
	for lines := bufio.NewScanner(io.LimitReader(f, most)); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), key); ok {
			n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 20)
			return uint32(n), err == nil
		}
	}
	return 0, false
}

// nodeless replaces err by the missing node if that is the cause.
func (r Roots) nodeless(err error) error {
	if _, missing := os.Stat(filepath.Join(r.Dev, control)); errors.Is(missing, fs.ErrNotExist) {
		return withoutNode(err, filepath.Join(r.Dev, control))
	}
	return err
}

func withoutNode(err error, node string) error {
	return about(nvml.Fail(nvml.NoNodes, "%w", err), "there is no %s", node)
}

// uncapped explains refusals that a missing capability node causes.
func (r Roots) uncapped(reply *nvml.Reply) {
	for i, g := range reply.GPUs {
		if g.Error == nil || g.Error.Status != nvml.StatusNoPermission {
			continue
		}
		if node := r.missingCapability(); node != "" {
			reply.GPUs[i].Error = nvml.AsFailure(withoutNode(g.Error, node))
		}
	}
}
