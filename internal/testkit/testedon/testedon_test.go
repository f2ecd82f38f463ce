package testedon

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The committed tables are those that go generate writes.
func TestTables_Generated(t *testing.T) {
	all, err := Results()
	if err != nil {
		t.Fatal(err)
	}
	for file, replace := range map[string]func(string, []Result) (string, error){"README.md": README, "packaging/man/dcm.1": Manual} {
		text, err := os.ReadFile("../../../" + file)
		if err != nil {
			t.Fatal(err)
		}
		want, err := replace(string(text), all)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(text)); diff != "" {
			t.Errorf("%s: run go generate ./internal/testkit/testedon\n%s", file, diff)
		}
	}
}

func TestResults_NotTested(t *testing.T) {
	all, err := Results()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Enterprise Linux 9", "the SELinux policy of Enterprise Linux"} {
		if !slices.ContainsFunc(in(all, untested), func(r Result) bool { return r.Name == name }) {
			t.Errorf("%s is not listed as not tested", name)
		}
	}
}

func TestCheck(t *testing.T) {
	for want, r := range map[string]Result{
		"unknown group": {Group: "rumours", Name: "x"},
		"missing":       {Group: boards, Name: "8 MI300X", Version: "kernel 6.12", What: "x"},
		"name only":     {Group: untested, Name: "x", Date: "2026-11-22"},
	} {
		if err := check([]Result{r}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", r, err, want)
		}
	}
}

func TestBoardOf(t *testing.T) {
	got, err := boardOf([]byte(`{"version": 1, "dcm": "1.2.3", "kernel": "6.12.0", "date": "2027-01-02", "gpus": [{"Address": "0000:05:00.0", "Vendor": 4098, "Device": 29857}]}`))
	if err != nil || got.Name != "1 MI300X" || got.Version != "kernel 6.12.0" || got.Date != "2027-01-02" {
		t.Errorf("the row is %+v, %v", got, err)
	}
	if row := rows([]Result{got}); !strings.Contains(row, "| real boards, only read | 1 MI300X kernel 6.12.0 | 2027-01-02 |") {
		t.Errorf("the table is\n%s", row)
	}
	if _, err := boardOf([]byte(`{"version": 1}`)); err == nil {
		t.Error("a record without a GPU is a board")
	}
}
