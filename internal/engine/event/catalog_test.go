package event

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// entries reads the shipped catalog: id → text.
func entries(t *testing.T) map[ID]string {
	t.Helper()
	text, err := os.ReadFile("../../../systemd/dcm.catalog")
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[ID]string)
	for _, entry := range strings.Split("\n"+string(text), "\n-- ")[1:] {
		id, rest, _ := strings.Cut(entry, "\n")
		if _, twice := out[ID(id)]; twice {
			t.Errorf("%s is explained twice", id)
		}
		out[ID(id)] = rest
	}
	return out
}

func TestCatalog_EachEvent(t *testing.T) {
	catalog := entries(t)
	for _, id := range All() {
		text, ok := catalog[id]
		if !ok {
			t.Errorf("%s is not in the catalog", id)
			continue
		}
		head, body, _ := strings.Cut(text, "\n\n")
		for _, line := range []string{"Subject: ", "Defined-By: dcm", "Documentation: man:"} {
			if !strings.Contains("\n"+head, "\n"+line) {
				t.Errorf("%s has no line %q", id, line)
			}
		}
		if len(strings.TrimSpace(body)) < 80 {
			t.Errorf("%s is hardly explained: %q", id, body)
		}
		var used []string
		for _, m := range regexp.MustCompile(`@([A-Z_]+)@`).FindAllStringSubmatch(text, -1) {
			if !slices.Contains(used, m[1]) {
				used = append(used, m[1])
			}
		}
		want := id.Fields()
		slices.Sort(used)
		slices.Sort(want)
		if diff := cmp.Diff(want, used); diff != "" {
			t.Errorf("fields of %s (-code +catalog):\n%s", id, diff)
		}
	}
	for id := range catalog {
		if !slices.Contains(All(), id) {
			t.Errorf("the catalog explains %s, which is no event", id)
		}
	}
}

func TestIDs_Distinct128Bit(t *testing.T) {
	seen := make(map[ID]bool)
	for _, id := range All() {
		if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(string(id)) || seen[id] {
			t.Errorf("%q", id)
		}
		seen[id] = true
	}
}
