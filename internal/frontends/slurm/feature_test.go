package slurm

import (
	"strings"
	"testing"
)

func TestFeature(t *testing.T) {
	for profile, want := range map[string]string{
		"cpx-nps4": "cpx_nps4", "all-1g.10gb": "all_1g.10gb", "1g.10gb": "_1g.10gb", "two words": "two_words",
		"a=b,c|d&e": "a_b_c_d_e", "größe": "gr__e", ".x": "_.x", "_x": "_x", "": "_",
	} {
		if got := Feature(profile); got != want {
			t.Errorf("Feature(%q) = %q, want %q", profile, got, want)
		}
	}
}

func TestFeatures_SameName(t *testing.T) {
	all, err := Features([]string{"cpx-nps4", "spx-nps1", "cpx-nps4"})
	if err != nil || len(all) != 2 || all["cpx_nps4"] != "cpx-nps4" {
		t.Errorf("features: got %v, %v", all, err)
	}
	const want = `profiles "cpx-nps4" and "cpx_nps4" have the same Slurm feature cpx_nps4. hint: rename one of them`
	if _, err := Features([]string{"cpx-nps4", "spx-nps1", "cpx_nps4"}); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if p, err := Profile(all, "spx_nps1"); p != "spx-nps1" || err != nil {
		t.Errorf("profile: got %q, %v", p, err)
	}
	if _, err := Profile(all, "spx-nps1"); err == nil || !strings.HasSuffix(err.Error(), `no feature "spx-nps1"; accepted: cpx_nps4, spx_nps1`) {
		t.Errorf("got %v", err)
	}
}
