package openfiles

import (
	"bufio"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mounts contains the mounts of one mount namespace whose file systems have a server.
type mounts struct {
	devices map[uint64]bool // by the device number of the file system
	points  []string
}

// serverTypes are the types of file systems with a server, which may not answer. All types of FUSE begin with
// "fuse".
var serverTypes = []string{"nfs", "nfs4", "lustre", "ceph", "cifs", "smb3", "9p", "afs", "autofs", "gfs2", "ocfs2", "orangefs", "beegfs", "gpfs", "wekafs", "pvfs2", "coda", "virtiofs"}

// readMounts reads a file mountinfo (proc_pid_mountinfo(5)), which no server can delay.
func readMounts(path string) *mounts {
	out := &mounts{devices: make(map[uint64]bool)}
	f, err := os.Open(path)
	if err != nil {
		return out
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		fields, end := strings.Fields(before), strings.Fields(after)
		if len(fields) < 5 || len(end) == 0 || !strings.HasPrefix(end[0], "fuse") && !slices.Contains(serverTypes, end[0]) {
			continue
		}
		high, low, _ := strings.Cut(fields[2], ":")
		major, _ := strconv.ParseUint(high, 10, 32)
		minor, _ := strconv.ParseUint(low, 10, 32)
		out.devices[unix.Mkdev(uint32(major), uint32(minor))] = true
		out.points = append(out.points, unescaped(fields[4]))
	}
	return out
}

// unescaped replaces the octal escapes of space, tab, newline and backslash.
func unescaped(path string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(path)
}

// remote reports whether the mapped file, or its path, is on a file system with a server.
func (s *mounts) remote(m mapping) bool {
	return s.devices[m.dev] || slices.ContainsFunc(s.points, func(point string) bool {
		return m.path == point || strings.HasPrefix(m.path, strings.TrimSuffix(point, "/")+"/")
	})
}
