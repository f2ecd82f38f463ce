package status

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/runstate"
)

func TestRemember_OnlySuccess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lib", runstate.KnownFile)
	if known, err := runstate.ReadKnown(path); len(known.GPUs) > 0 || err != nil {
		t.Fatalf("without a file: %v, %v", known, err)
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
		if _, err := Remember(path, Evaluate(no)); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); err == nil {
			t.Fatalf("Remember wrote the GPUs of an unsuccessful account: %+v", Evaluate(no).Health)
		}
	}
	if _, err := Remember(path, Evaluate(a)); err != nil {
		t.Fatal(err)
	}
	known, err := runstate.ReadKnown(path)
	if err != nil || len(known.GPUs) != 8 || known.GPUs[7] != a.GPUs[7].Address {
		t.Errorf("known GPUs: got %v, %v", known, err)
	}
	before, _ := os.Stat(path)
	if _, err := Remember(path, Evaluate(a)); err != nil {
		t.Fatal(err)
	}
	if after, _ := os.Stat(path); !os.SameFile(before, after) {
		t.Error("an unchanged file was written again")
	}
}

// An invalid file counts as a missing one; see package statefile.
func TestReadKnown_Invalid(t *testing.T) {
	path := filepath.Join(t.TempDir(), runstate.KnownFile)
	for _, text := range []string{"{", `{"version":7}`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if known, err := runstate.ReadKnown(path); err != nil || len(known.GPUs) > 0 {
			t.Errorf("%s: got %v, %v, want none", text, known, err)
		}
	}
}

// A lost GPU keeps its number and the time at which it was first noticed, also in a later account.
func TestRemember_LostGPU(t *testing.T) {
	path := filepath.Join(t.TempDir(), runstate.KnownFile)
	gone := time.Date(2026, 1, 2, 10, 34, 0, 0, time.UTC)
	numbered := func(a Account, at time.Time) Account {
		known, err := runstate.ReadKnown(path)
		if err != nil {
			t.Fatal(err)
		}
		a.Taken, a.Expected = at, Expected{}
		addExpected(&a, known)
		return Evaluate(a)
	}
	whole := eight()
	for i := range whole.GPUs {
		whole.GPUs[i].Vendor, whole.GPUs[i].Model = "amd", "MI300X"
	}
	if _, err := Remember(path, Evaluate(whole)); err != nil {
		t.Fatal(err)
	}
	for i, at := range []time.Time{gone, gone.Add(time.Hour)} {
		a := whole
		a.GPUs = slices.Delete(slices.Clone(whole.GPUs), 3, 4)
		for i := range a.GPUs {
			a.GPUs[i].Index = i
		}
		a = numbered(a, at)
		found, err := Remember(path, a)
		if err != nil {
			t.Fatal(err)
		}
		want := Presence{} // once
		if i == 0 {
			want.Lost = []string{whole.GPUs[3].Address}
		}
		if diff := cmp.Diff(want, found); diff != "" {
			t.Errorf("account %d, presence (-want +got):\n%s", i, diff)
		}
		if a = numbered(a, at); a.GPUs[2].Index != 2 || a.GPUs[3].Index != 4 || a.GPUs[6].Index != 7 {
			t.Errorf("account %d: numbers %d, %d and %d, want 2, 4 and 7", i, a.GPUs[2].Index, a.GPUs[3].Index, a.GPUs[6].Index)
		}
		if diff := cmp.Diff(List[Lost]{{3, whole.GPUs[3].Address, "amd", "MI300X", gone}}, a.Expected.Lost); diff != "" {
			t.Errorf("account %d, lost (-want +got):\n%s", i, diff)
		}
	}
	for _, mode := range []string{"SPX", whole.GPUs[3].Mode.Compute} { // it is back before the profile is on it
		a := whole
		a.GPUs = slices.Clone(whole.GPUs)
		a.GPUs[3].Mode.Compute = mode
		found, err := Remember(path, numbered(a, gone.Add(2*time.Hour)))
		if err != nil {
			t.Fatal(err)
		}
		if mode == "SPX" && !slices.Equal(found.Back, []string{whole.GPUs[3].Address}) || mode != "SPX" && len(found.Back) > 0 {
			t.Errorf("back in %s: %v", mode, found.Back)
		}
	}
	if known, err := runstate.ReadKnown(path); err != nil || len(known.Missing) > 0 {
		t.Errorf("after its return: missing %v, %v", known.Missing, err)
	}
}
