package status

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/runstate"
)

func TestRemember_OnlySuccess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lib", KnownFile)
	if known, err := ReadKnown(path); len(known) > 0 || err != nil {
		t.Fatalf("without a file: %q, %v", known, err)
	}
	a := eight()
	for _, change := range []func(*Account){
		func(a *Account) { a.GPUs = a.GPUs[:7] },
		func(a *Account) { a.GPUs[0].Mode.Compute = "SPX" },
		func(a *Account) { a.Profile = Profile{} },
		func(a *Account) { a.Daemon.Phase = runstate.Applying },
	} {
		no := eight()
		change(&no)
		if err := Remember(path, Evaluate(no)); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); err == nil {
			t.Fatalf("Remember wrote the GPUs of an unsuccessful account: %+v", Evaluate(no).Health)
		}
	}
	if err := Remember(path, Evaluate(a)); err != nil {
		t.Fatal(err)
	}
	known, err := ReadKnown(path)
	if err != nil || len(known) != 8 || known[7] != a.GPUs[7].Address {
		t.Errorf("known GPUs: got %q, %v", known, err)
	}
	before, _ := os.Stat(path)
	if err := Remember(path, Evaluate(a)); err != nil {
		t.Fatal(err)
	}
	if after, _ := os.Stat(path); !os.SameFile(before, after) {
		t.Error("an unchanged file was written again")
	}
}

func TestReadKnown_Errors(t *testing.T) {
	path := filepath.Join(t.TempDir(), KnownFile)
	for text, want := range map[string]string{
		"{":             "state file " + path + ": not valid: unexpected end of JSON input",
		`{"version":7}`: "state file " + path + ": version not supported (found 7, want 1)",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := ReadKnown(path)
		if err == nil {
			t.Fatal("got no error")
		}
		if diff := cmp.Diff(want, err.Error()); diff != "" {
			t.Errorf("error (-want +got):\n%s", diff)
		}
	}
}
