package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
)

// TestExit_ManualHasTheTable compares dcm(1) with the table of exit statuses.
// DCM_MANUAL=write writes that section of the manual.
func TestExit_ManualHasTheTable(t *testing.T) {
	const file, begin, end = "../../../packaging/man/dcm.1", ".SH EXIT STATUS\n.ne 12\n.TS\ntab(;);\nl lx.\n", ".TE\n"
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(page), begin)
	now, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no table of exit statuses", file)
	}
	want := exitTable()
	if os.Getenv("DCM_MANUAL") == "write" {
		if err := os.WriteFile(file, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		now = want
	}
	if diff := cmp.Diff(want, now); diff != "" {
		t.Errorf("exit statuses (-table +manual); DCM_MANUAL=write writes them:\n%s", diff)
	}
}

// exitTable is the table as rows of tbl(1).
func exitTable() string {
	var b strings.Builder
	last := -1
	for _, e := range exitcode.Table() {
		status := strconv.Itoa(e.Status)
		if e.Status == last {
			status = ""
		}
		last = e.Status
		var names []string
		for _, c := range e.Commands {
			names = append(names, `\fB`+c+`\fR`)
		}
		when := e.When
		if len(names) > 0 {
			when = strings.Join(names, ", ") + ": " + when
		}
		fmt.Fprintf(&b, "%s;T{\n%s\nT}\n", status, when)
	}
	return b.String()
}

// Each status of each command that needs no daemon has a line in a script; the others
// are the end-to-end tests'.
func TestExit_EveryStatusIsInAScript(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*exit.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	seen := make(map[string]bool)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^exits (\d+) (\S+)`).FindAllStringSubmatch(string(text), -1) {
			seen[m[1]+" "+m[2]], seen[m[1]] = true, true
		}
	}
	for _, e := range exitcode.Table() {
		status := strconv.Itoa(e.Status)
		if !e.Daemon && e.Commands == nil && !seen[status] {
			t.Errorf("no script has exit status %s", status)
		}
		for _, c := range e.Commands {
			if !e.Daemon && !seen[status+" "+c] {
				t.Errorf("no script has a dcm %s with exit status %s", c, status)
			}
		}
	}
}

func TestExit_WrongCommandLine(t *testing.T) {
	for _, c := range root(&host.Host{}, &console.Console{}, nil).Commands() {
		var output strings.Builder
		con := &console.Console{Out: &output, Err: &output}
		if status := Run(t.Context(), &host.Host{Root: t.TempDir()}, con, []string{c.Name(), "--no-such-option"}); status != exitcode.Usage {
			t.Errorf("dcm %s --no-such-option: exit status %d, want %d", c.Name(), status, exitcode.Usage)
		}
		if want := "unknown flag: --no-such-option\ndcm: hint: see 'dcm " + c.Name(); !strings.Contains(output.String(), want) {
			t.Errorf("dcm %s --no-such-option: %q, want %q", c.Name(), &output, want)
		}
	}
}
