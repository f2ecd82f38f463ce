package testedon

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The committed section is the one that go generate writes.
func TestManual_Generated(t *testing.T) {
	all, err := Results()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../../packaging/man/dcm-tested.7")
	if err != nil {
		t.Fatal(err)
	}
	want, err := Manual(string(text), all)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("dcm-tested.7: run go generate ./internal/testkit/testedon\n%s", diff)
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
	if section := body([]Result{got}); !strings.Contains(section, ".B 1 MI300X kernel 6.12.0\nread by dcm support record 1.2.3; nothing was changed, 2027\\-01\\-02.\n") {
		t.Errorf("the section is\n%s", section)
	}
	if _, err := boardOf([]byte(`{"version": 1}`)); err == nil {
		t.Error("a record without a GPU is a board")
	}
}
