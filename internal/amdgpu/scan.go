package amdgpu

import (
	"bytes"
	"slices"

	"golang.org/x/sys/unix"
)

// scan looks at open files. A node may have thousands of processes with hundreds
// of files each, so the path alone rules most out, and no more is allocated than
// the directory's names.
type scan struct {
	nodes   map[identity]string
	found   map[int][]string
	partial bool
	buf     []byte
	names   []string
	link    [4096]byte
}

func (s *scan) add(pid int, device string) {
	if !slices.Contains(s.found[pid], device) {
		s.found[pid] = append(s.found[pid], device)
	}
}

// process adds what the process has open. One that ended meanwhile has nothing.
func (s *scan) process(pid int, dir string) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		s.denied(err)
		return
	}
	defer unix.Close(fd)
	for {
		size, err := unix.ReadDirent(fd, s.buf)
		if err != nil || size == 0 {
			s.denied(err)
			return
		}
		_, _, s.names = unix.ParseDirent(s.buf[:size], -1, s.names[:0])
		for _, name := range s.names {
			s.file(pid, fd, name)
		}
	}
}

// file looks at one open file: by the link's text whether it may be a GPU's
// node, and by what the link leads to, in that process's mount namespace,
// whether it is.
func (s *scan) file(pid, dir int, name string) {
	size, err := unix.Readlinkat(dir, name, s.link[:])
	if err != nil {
		s.denied(err)
		return
	}
	if !mayBeNode(s.link[:size]) {
		return
	}
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, 0); err != nil {
		s.denied(err)
		return
	}
	if device, ok := s.nodes[identify(&st)]; ok {
		s.add(pid, device)
	}
}

func (s *scan) denied(err error) {
	if err == unix.EACCES || err == unix.EPERM {
		s.partial = true
	}
}

// mayBeNode goes by the name, since a container may have the node anywhere. A
// node that was removed while it was open has a suffix, which does not matter.
func mayBeNode(path []byte) bool {
	base := path[bytes.LastIndexByte(path, '/')+1:]
	return bytes.HasPrefix(base, []byte("renderD")) || bytes.HasPrefix(base, []byte("card")) || bytes.HasPrefix(base, []byte("kfd"))
}
