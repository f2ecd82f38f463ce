package journal

import (
	"encoding/binary"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestHandler_Fields(t *testing.T) {
	var got [][]field
	h := &Handler{name: "dcm", send: func(fields []field) error {
		got = append(got, fields)
		return nil
	}}
	log := slog.New(h).With("run", "abc")
	log.Info("switched 0000:05:00.0 from SPX to CPX", "gpu", "0000:05:00.0", "from", "SPX", "to", "CPX")
	log.Error("step failed", "error", "device or resource busy", MessageID, "0123", "empty", "")
	log.WithGroup("unit").Warn("odd", "näme-1", "x")
	log.With("gpu", []string{"a", "b"}).Info("requested NPS4 for 2 GPUs")
	log.With("gpu", []string{"a", "b"}).Info("one of them", "gpu", "b")
	log.Info("many", "gpu", []string{"a", "b"}, "none", []string{})
	entry := func(text, priority string, more ...field) []field {
		return append([]field{{"MESSAGE", text}, {"PRIORITY", priority}, {"SYSLOG_IDENTIFIER", "dcm"}, {"DCM_RUN", "abc"}}, more...)
	}
	want := [][]field{
		entry("switched 0000:05:00.0 from SPX to CPX", "6", field{"DCM_GPU", "0000:05:00.0"}, field{"DCM_FROM", "SPX"}, field{"DCM_TO", "CPX"}),
		entry(`step failed error="device or resource busy"`, "3", field{"DCM_ERROR", "device or resource busy"}, field{"MESSAGE_ID", "0123"}),
		entry("odd unit_näme-1=x", "4", field{"DCM_UNIT_N_ME_1", "x"}),
		entry("requested NPS4 for 2 GPUs", "6", field{"DCM_GPU", "a"}, field{"DCM_GPU", "b"}),
		entry("one of them gpu=b", "6", field{"DCM_GPU", "b"}),
		entry("many gpu=a,b", "6", field{"DCM_GPU", "a"}, field{"DCM_GPU", "b"}),
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(field{})); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

// journald is a socket like that of the journal.
func journald(t *testing.T) (*sender, *net.UnixConn) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "socket")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return &sender{path: path}, conn
}

func TestSend_Protocol(t *testing.T) {
	s, conn := journald(t)
	if err := s.send([]field{{"MESSAGE", "one\ntwo"}, {"DCM_GPU", "a"}, {"DCM_GPU", "b"}}); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 1<<16)
	n, err := conn.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	size := string(binary.LittleEndian.AppendUint64(nil, 7))
	if diff := cmp.Diff("MESSAGE\n"+size+"one\ntwo\nDCM_GPU=a\nDCM_GPU=b\n", string(buf[:n])); diff != "" {
		t.Errorf("entry (-want +got):\n%s", diff)
	}
}

// An entry that is too long for a datagram is passed as a sealed file.
func TestSend_LongEntry(t *testing.T) {
	s, conn := journald(t)
	long := strings.Repeat("x", 1<<20)
	if err := s.send([]field{{"MESSAGE", long}}); err != nil {
		t.Fatal(err)
	}
	rights := make([]byte, 64)
	_, n, _, _, err := conn.ReadMsgUnix(make([]byte, 1), rights)
	if err != nil {
		t.Fatal(err)
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) != 1 {
		t.Fatalf("%d messages, %v", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fds[0]), "entry")
	defer file.Close()
	seals, err := unix.FcntlInt(file.Fd(), unix.F_GET_SEALS, 0)
	if err != nil || seals&unix.F_SEAL_WRITE == 0 {
		t.Errorf("seals %#x, %v", seals, err)
	}
	text := make([]byte, 2<<20)
	size, err := file.ReadAt(text, 0)
	if got := string(text[:size]); got != "MESSAGE="+long+"\n" {
		t.Errorf("file of %d bytes, %v", size, err)
	}
}

func TestNew_WithoutJournal(t *testing.T) {
	t.Setenv("JOURNAL_STREAM", "0:0")
	if _, ok := New("dcm"); ok {
		t.Error("standard error was accepted as the journal's stream")
	}
}

func TestConnected(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(w.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	name := strings.TrimSpace(strings.Join([]string{itoa(st.Dev), itoa(st.Ino)}, ":"))
	if !connected(w, name) || connected(w, "1:1") || connected(w, "") {
		t.Errorf("%s is not recognized by its number", name)
	}
}

func itoa(n uint64) string { return slog.Uint64Value(n).String() }
