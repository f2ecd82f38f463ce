package config_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dcm/internal/engine/config"
	"dcm/internal/engine/config/source"
)

// largeTexts are as large as a file may be, each hard on another part.
func largeTexts() map[string]string {
	fill := func(line func(i int) string) string {
		var b strings.Builder
		for i := 0; b.Len() < source.MaxFileBytes-200; i++ {
			b.WriteString(line(i))
		}
		return b.String()
	}
	return map[string]string{
		"units":        "[clients]\nunits = [" + fill(func(i int) string { return fmt.Sprintf("\"u%d\",\n", i) }) + "]",
		"profiles":     fill(func(i int) string { return fmt.Sprintf("[profiles.p%d]\ncompute = \"SPX\"\n", i) }),
		"unknown keys": fill(func(i int) string { return fmt.Sprintf("a%d = 1\n", i) }),
		"dotted keys":  fill(func(i int) string { return fmt.Sprintf("a.b.c.d.e.f.g.h.i.j.k.l.m.n.o%d = 1\n", i) }),
		"one key":      strings.Repeat("k", source.MaxFileBytes-10) + " = 1",
		"one name":     "profile = \"" + strings.Repeat("k", source.MaxFileBytes-20) + "\"",
		"one array":    "a = [" + strings.Repeat("1,", source.MaxFileBytes/2-10) + "]",
		"comments":     strings.Repeat("#\n", source.MaxFileBytes/2),
	}
}

// The time limit is several times what a load takes, and far below the time of an algorithm that is
// quadratic in the size of the file.
func TestLoad_LargestFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds, most of them in the decoder")
	}
	for name, text := range largeTexts() {
		begin := worked(t)
		_, err := config.LoadText("f", text)
		if took := worked(t) - begin; took > 20*time.Second {
			t.Errorf("%s: took %v", name, took)
		}
		if err != nil && len(err.Error()) > 64<<10 {
			t.Errorf("%s: an error of %d bytes", name, len(err.Error()))
		}
	}
}

// worked is the processor time of the test so far: what others do on the machine does not
// count.
func worked(t *testing.T) time.Duration {
	t.Helper()
	var use unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &use); err != nil {
		t.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
