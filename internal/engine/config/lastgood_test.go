package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A key that is left out of the copy would have its default where the files are
// broken.
func TestWhatIsKeptIsTheWholeConfiguration(t *testing.T) {
	p := files{"etc/dcm/dcm.toml": everyKey, "run/dcm/dcm.toml.d/zz-selected.toml": "profile = \"whole\"\n"}.write(t)
	want, broken, err := Effective(p)
	if broken != nil || err != nil {
		t.Fatal(broken, err)
	}
	must(t, SaveLastGood(p, want))
	must(t, SaveLastGood(p, want))
	must(t, os.WriteFile(p.Admin, []byte("["), 0o644))
	got, broken, err := Effective(p)
	if err != nil || broken == nil || !strings.Contains(broken.Error(), "/etc/dcm/dcm.toml:1") {
		t.Fatal(broken, err)
	}
	want.Persistent = got.Persistent
	if diff := same(want, got); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	if !strings.HasPrefix(got.Source, p.Kept+":") {
		t.Errorf("selected by %s", got.Source)
	}

	root, problem := parseTOML("kept", content(t, p.Kept))
	if problem != nil {
		t.Fatal(problem)
	}
	for key, r := range schema().keys {
		for sub := range r.keys {
			if slices.ContainsFunc(root.at(key).items(), func(n *node) bool { return n.at(sub) != nil }) {
				continue
			}
			if sub != anyName && root.at(key, sub) == nil {
				t.Errorf("%s.%s is not kept", key, sub)
			}
		}
		if root.at(key) == nil {
			t.Errorf("%s is not kept", key)
		}
	}
	if entries, _ := os.ReadDir(filepath.Dir(p.Kept)); len(entries) != 2 {
		t.Errorf("the directory holds %v", entries)
	}
}

func TestNothingIsKeptWhereNothingCanBeTrusted(t *testing.T) {
	p := files{"etc/dcm/dcm.toml": "["}.write(t)
	if c, broken, err := Effective(p); c != nil || broken != nil || err == nil {
		t.Errorf("without a copy: %+v, %v, %v", c, broken, err)
	}
	must(t, SaveLastGood(p, defaults()))
	if _, broken, err := Effective(p); broken == nil || err != nil {
		t.Errorf("with a copy: %v, %v", broken, err)
	}
	must(t, os.Chmod(p.Kept, 0o666))
	if c, broken, err := Effective(p); c != nil || broken != nil || err == nil {
		t.Errorf("with a copy of anybody's: %+v, %v, %v", c, broken, err)
	}
}
