package openfiles

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A process whose inspection hangs is not inspected again, and the number of inspections that hang is limited.
func TestInspections_Limits(t *testing.T) {
	i := inspections{running: make(map[string][]time.Time)}
	now := time.Now()
	for range 2 {
		if !i.begin("/proc/1", now, time.Second) {
			t.Error("a process is not inspected by two callers")
		}
	}
	later := now.Add(2 * time.Second)
	if i.begin("/proc/1", later, time.Second) {
		t.Error("a process that hangs is inspected again")
	}
	if !i.begin("/proc/2", later, time.Second) {
		t.Error("another process is not inspected")
	}
	i.end("/proc/1", now)
	i.end("/proc/1", now)
	if !i.begin("/proc/1", later, time.Second) {
		t.Error("a process that hung before is not inspected")
	}
	for n := range maxHung {
		i.begin(fmt.Sprint("/proc/", 100+n), later, time.Second)
	}
	if i.begin("/proc/3", later.Add(2*time.Second), time.Second) {
		t.Error("more inspections hang than permitted, and one begins")
	}
}

func TestReadMounts_Servers(t *testing.T) {
	// The file of a process with a FUSE mount, see proc_pid_mountinfo(5).
	path := filepath.Join(t.TempDir(), "mountinfo")
	must(t, os.WriteFile(path, []byte(`25 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 25 0:45 / /mnt/a\040b rw,nosuid - fuse.sshfs host:/ rw,user_id=0
41 25 0:46 / /scratch rw shared:7 master:2 - nfs4 server:/ rw,vers=4.2
42 25 0:5 / /dev rw,nosuid shared:2 - devtmpfs udev rw
`), 0o644))
	m := readMounts(path)
	for _, tt := range []struct {
		path  string
		minor uint32
		want  bool
	}{
		{"/srv/x", 45, true}, {"/mnt/a b/c", 99, true}, {"/mnt/a bc", 99, false}, {"/scratch", 99, true},
		{"/dev/dri/renderD128", 5, false}, {"/scratch2/x", 99, false},
	} {
		if got := m.remote(mapping{path: tt.path, dev: uint64(tt.minor)}); got != tt.want {
			t.Errorf("%s on 0:%d: got %t, want %t", tt.path, tt.minor, got, tt.want)
		}
	}
}
