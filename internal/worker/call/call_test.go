package call

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain runs the test binary as the called program.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && strings.HasPrefix(os.Args[1], "be ") {
		os.Exit(be(strings.TrimPrefix(os.Args[1], "be ")))
	}
	os.Exit(m.Run())
}

func be(what string) int {
	request, _ := io.ReadAll(os.Stdin)
	switch what {
	case "fine":
		fmt.Printf("%s, with %q", request, os.Environ())
	case "failing":
		fmt.Print("an answer still")
		fmt.Fprint(os.Stderr, "\n\x1b[2Jno more\nbut this")
		return 1
	case "endless":
		line := strings.Repeat("x", 1<<16)
		for range 100 {
			fmt.Print(line)
		}
	case "hanging":
		fmt.Print("partly")
		_ = unix.Pause()
	}
	return 0
}

func way(what string) Way { return Way{Args: []string{"be " + what}, Attr: Group()} }

func TestOnce(t *testing.T) {
	t.Setenv("LD_PRELOAD", "")
	out, err := Once(t.Context(), os.Args[0], []byte("a request"), way("fine"))
	if want := `a request, with ["GOTRACEBACK=none" "LANG=C"]`; err != nil || string(out) != want {
		t.Errorf("%s, %v; want %s", out, err, want)
	}
	out, err = Once(t.Context(), os.Args[0], nil, way("endless"))
	if err != nil || len(out) != maxReply {
		t.Errorf("%d bytes of an endless reply, %v", len(out), err)
	}
}

func TestOnce_Errors(t *testing.T) {
	for _, c := range []struct {
		name, program, what string
		kind                Kind
		text, answer        string
	}{
		{"exit status 1", os.Args[0], "failing", NoAnswer, `exit status 1: \x1b[2Jno more`, "an answer still"},
		{"missing program", "/nonexistent/program", "fine", NoProgram, "cannot start it", ""},
		{"no permission", filepath.Dir(os.Args[0]), "fine", NoAnswer, "cannot start it", ""},
		{"hangs", os.Args[0], "hanging", Deadline, "no answer in time, killed", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := t.Context()
			if c.kind == Deadline {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, 100*time.Millisecond)
				defer cancel()
			}
			out, err := Once(ctx, c.program, nil, way(c.what))
			var failed *Error
			if !errors.As(err, &failed) || failed.Kind != c.kind || !strings.Contains(err.Error(), c.text) || string(out) != c.answer {
				t.Errorf("%q, %v (%+v)", out, err, failed)
			}
		})
	}
}

// The next way is used only if the one before is not permitted.
func TestOnce_Ways(t *testing.T) {
	refused := way("fine")
	refused.Attr.Cloneflags = unix.CLONE_NEWUSER
	refused.Attr.UidMappings = nil
	missing := way("fine")
	missing.Attr.Chroot = "/nonexistent/root"
	if _, err := Once(t.Context(), os.Args[0], nil, missing, way("fine")); err == nil {
		t.Error("the second way was used although the first is permitted")
	}
}
