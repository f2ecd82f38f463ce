package procstat

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestField(t *testing.T) {
	line := "7 (a) b (c)) S 1 7 7 34816 7 4194304 11 12 13 14 15 16 17 18 20 0 1 0 5555 8 9\n"
	for n, want := range map[Number]string{State: "S", Terminal: "34816", StartTime: "5555", 1: "", 2: "", 99: ""} {
		if got := field(line, n); got != want {
			t.Errorf("field %d is %q, want %q", n, got, want)
		}
	}
	for _, short := range []string{"", "7 (a)", "7 (a) S"} {
		if got := field(short, StartTime); got != "" {
			t.Errorf("%q has the start time %q", short, got)
		}
	}
}

func TestStarted(t *testing.T) {
	if age := time.Since(Started("/proc/self")); age < 0 || age > time.Hour {
		t.Errorf("this process was started %s ago", age)
	}
	if at := Started("/proc/none"); !at.IsZero() {
		t.Errorf("a process that does not exist was started at %s", at)
	}
}

// Field 22 of this process is that in the kernel's file, counted from the end of a name without spaces.
func TestRead(t *testing.T) {
	text, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		t.Fatal(err)
	}
	after := strings.Fields(string(text[strings.LastIndex(string(text), ") ")+2:]))
	if got := Read("/proc/self", StartTime); got == "" || got != after[19] {
		t.Errorf("start time %q, want %q", got, after[19])
	}
	if got := Read("/proc/none", State); got != "" {
		t.Errorf("a process that does not exist has the state %q", got)
	}
}

func TestEnded(t *testing.T) {
	write := func(stat string, threads ...string) string {
		dir := t.TempDir()
		for _, tid := range threads {
			if err := os.MkdirAll(filepath.Join(dir, "task", tid), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if stat != "" {
			if err := os.WriteFile(filepath.Join(dir, "stat"), []byte(stat), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	for _, test := range []struct {
		name, dir string
		want      bool
	}{
		{"no directory", filepath.Join(t.TempDir(), "7"), true},
		{"runs", write("7 (a) S 1", "7"), false},
		{"hangs in a system call", write("7 (a) D 1", "7"), false},
		{"zombie", write("7 (a) Z 1", "7"), true},
		{"being reaped", write("7 (a) X 1"), true},
		{"first thread has ended", write("7 (a) Z 1", "7", "8"), false},
		{"state unknown", write(""), false},
		{"this process", "/proc/self", false},
	} {
		if got := Ended(test.dir); got != test.want {
			t.Errorf("%s: ended is %v, want %v", test.name, got, test.want)
		}
	}
}

func TestEnded_Zombie(t *testing.T) {
	child := exec.Command("sleep", "infinity")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	dir := fmt.Sprintf("/proc/%d", child.Process.Pid)
	if Ended(dir) {
		t.Error("the running child has ended")
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// WNOWAIT leaves the child a zombie.
	if err := unix.Waitid(unix.P_PID, child.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if !Ended(dir) {
		t.Error("the zombie has not ended")
	}
	_ = child.Wait() // it was killed
	if !Ended(dir) {
		t.Error("the reaped child has not ended")
	}
}
