package leases

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dcm/internal/exitcode"
	"dcm/internal/frontends/dbusapi"
)

func TestFindProgram(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"program": 0o755, "text": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, head := range map[string]string{"lost": "#!/nonexistent -x\n", "unfit": "#! " + filepath.Join(dir, "text") + "\n", "plain": "exit 3\n", "empty": "", "bare": "#!\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(head), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("PATH", "/nonexistent:.")
	for _, tt := range []struct {
		command string
		code    int
	}{
		{"program", exitcode.OK}, {"./program", exitcode.OK}, {filepath.Join(dir, "program"), exitcode.OK},
		{"./text", exitcode.NotExecutable}, {dir, exitcode.NotExecutable}, {"/", exitcode.NotExecutable},
		{"./lost", exitcode.NotFound}, {"./unfit", exitcode.NotExecutable}, {"./plain", exitcode.OK}, {"./empty", exitcode.OK}, {"./bare", exitcode.OK},
		{"missing", exitcode.NotFound}, {"./missing", exitcode.NotFound}, {"./program/x", exitcode.NotFound}, {"", exitcode.NotFound},
	} {
		p, err := findProgram(tt.command)
		if got := exitcode.Code(err); got != tt.code || (p.path == "") != (tt.code != exitcode.OK) {
			t.Errorf("%q is found as %q, %v; status %d, want %d", tt.command, p.path, err, got, tt.code)
		}
	}
}

// A script with an empty variable does not get a lease that it did not request.
func TestCheckOptions_Refused(t *testing.T) {
	for _, tt := range []struct {
		request dbusapi.Request
		set     string // the options that are given
		want    string
	}{
		{dbusapi.Request{}, "make", "--make: empty; omit the option, or give a value"},
		{dbusapi.Request{}, "place", "--place: empty"},
		{dbusapi.Request{}, "vendor", "--vendor: empty"},
		{dbusapi.Request{}, "mode", "--mode: empty"},
		{dbusapi.Request{}, "gpu", "--gpu: empty"},
		{dbusapi.Request{}, "partition", "--partition: empty"},
		{dbusapi.Request{NamedGPUs: []string{"3", "x"}}, "gpu", `--gpu: "x" is neither a PCI address`},
		{dbusapi.Request{NamedPartitions: []string{"65"}}, "partition", `--partition: not a partition (found "65", want one such as 0000:65:00.0-1, `},
		{dbusapi.Request{NamedGPUs: []string{"3"}, GPUs: 1}, "", "--gpu and --partition cannot be combined with -n"},
		{dbusapi.Request{NamedGPUs: []string{"3"}, Make: "CPX"}, "", "--make can be combined only with"},
		{dbusapi.Request{Make: "cpx"}, "make", `--make: unknown compute mode "cpx"; write CPX`},
		{dbusapi.Request{Make: "x"}, "make", `--make: "x" is not a MIG profile like 1g.10gb, 1c.3g.40gb or 1g.10gb+me, nor a compute mode (SPX, `},
	} {
		err := checkOptions(tt.request, func(option string) bool { return option == tt.set }, []string{"true"}, false)
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%+v: got %v, want %s", tt.request, err, tt.want)
		}
	}
}
