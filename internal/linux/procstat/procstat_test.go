package procstat

import (
	"os"
	"strings"
	"testing"
	"time"
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
