package e2e

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.yaml.in/yaml/v3"
)

func TestRoots_Dependencies(t *testing.T) {
	text, err := os.ReadFile("../../../packaging/nfpm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var recipe struct {
		Overrides struct {
			Deb struct{ Depends []string }
		}
	}
	if err := yaml.Unmarshal(text, &recipe); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, d := range recipe.Overrides.Deb.Depends {
		want = append(want, strings.Fields(d)[0]) // without version and alternatives
	}
	if diff := cmp.Diff(want, Dependencies(), cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Errorf("dependencies (-package +roots):\n%s", diff)
	}
}
