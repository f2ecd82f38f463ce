package selection

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dcm/internal/engine/config"
	"dcm/internal/engine/config/configtest"
)

// A key that is left out of the copy would have its default where the files are
// broken.
func TestSaveLastGood_WholeConfiguration(t *testing.T) {
	p := configtest.Files{"etc/dcm/dcm.toml": configtest.EveryKey, "run/dcm/dcm.toml.d/zz-selected.toml": "profile = \"whole\"\n"}.Write(t)
	want, broken, err := Effective(p)
	if broken != nil || err != nil {
		t.Fatal(broken, err)
	}
	configtest.Must(t, SaveLastGood(p, want))
	configtest.Must(t, SaveLastGood(p, want))
	configtest.Must(t, os.WriteFile(p.Admin, []byte("["), 0o644))
	got, broken, err := Effective(p)
	if err != nil || broken == nil || !strings.Contains(broken.Error(), "/etc/dcm/dcm.toml:1") {
		t.Fatal(broken, err)
	}
	want.Persistent = got.Persistent
	if diff := configtest.Diff(want, got); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	if !strings.HasPrefix(got.Source, p.Kept+":") {
		t.Errorf("selected by %s", got.Source)
	}

	if entries, _ := os.ReadDir(filepath.Dir(p.Kept)); len(entries) != 2 {
		t.Errorf("the directory holds %v", entries)
	}
}

func TestSaveLastGood_UnsafeDirectory(t *testing.T) {
	p := configtest.Files{"etc/dcm/dcm.toml": "["}.Write(t)
	if c, broken, err := Effective(p); c != nil || broken != nil || err == nil {
		t.Errorf("without a copy: %+v, %v, %v", c, broken, err)
	}
	configtest.Must(t, SaveLastGood(p, config.Defaults()))
	if _, broken, err := Effective(p); broken == nil || err != nil {
		t.Errorf("with a copy: %v, %v", broken, err)
	}
	configtest.Must(t, os.Chmod(p.Kept, 0o666))
	if c, broken, err := Effective(p); c != nil || broken != nil || err == nil {
		t.Errorf("with a copy of anybody's: %+v, %v, %v", c, broken, err)
	}
}
