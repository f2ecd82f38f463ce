package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Socket is the socket of journald.
const Socket = "/run/systemd/journal/socket"

// field is one field of an entry. An entry may have several fields of one name.
type field struct{ name, value string }

// sender writes entries in the journal's native protocol, see
// https://systemd.io/JOURNAL_NATIVE_PROTOCOL.
type sender struct {
	path string

	mu   sync.Mutex
	conn *net.UnixConn
}

// send sends one entry as a datagram. So an entry is complete or missing, and after a restart journald
// receives the next entry without a new connection.
func (s *sender) send(fields []field) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram"})
		if err != nil {
			return fmt.Errorf("cannot write to the journal: %w", err)
		}
		s.conn = conn
	}
	entry, to := serialise(fields), &net.UnixAddr{Name: s.path, Net: "unixgram"}
	_, _, err := s.conn.WriteMsgUnix(entry, nil, to)
	if errors.Is(err, syscall.EMSGSIZE) || errors.Is(err, syscall.ENOBUFS) {
		err = s.large(entry, to)
	}
	if err != nil {
		return fmt.Errorf("cannot write to the journal: %w", err)
	}
	return nil
}

// large sends an entry that is too long for a datagram, as a sealed memory file (memfd_create(2)).
func (s *sender) large(entry []byte, to *net.UnixAddr) error {
	fd, err := unix.MemfdCreate("dcm-journal", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), "dcm-journal")
	defer file.Close()
	if _, err := file.Write(entry); err != nil {
		return err
	}
	const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return err
	}
	_, _, err = s.conn.WriteMsgUnix(nil, unix.UnixRights(fd), to)
	return err
}

// serialise returns the entry in the protocol's form. A value of several lines is preceded by its
// length.
func serialise(fields []field) []byte {
	var b bytes.Buffer
	for _, f := range fields {
		if !strings.Contains(f.value, "\n") {
			fmt.Fprintf(&b, "%s=%s\n", f.name, f.value)
			continue
		}
		b.WriteString(f.name + "\n")
		_ = binary.Write(&b, binary.LittleEndian, uint64(len(f.value))) // cannot fail
		b.WriteString(f.value + "\n")
	}
	return b.Bytes()
}

// connected reports whether f is the connection to the journal that systemd opened for this service;
// see JOURNAL_STREAM in systemd.exec(5).
func connected(f *os.File, stream string) bool {
	info, err := f.Stat()
	if err != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && stream == fmt.Sprintf("%d:%d", st.Dev, st.Ino)
}
