package history

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/runstate"
)

func TestFormer(t *testing.T) {
	for _, test := range []struct{ name, runs, selected, want string }{
		{"the last one", "a:applied b:applied", "b", "a"},
		{"back and forth", "a:applied b:applied a:applied", "a", "b"},
		{"each once, the newest first", "a:applied b:applied a:applied c:applied d:applied", "d", "c a b"},
		{"not applied", "a:applied b:rolled-back c:killed d:refused e:applied", "e", "a"},
		{"no change was needed", "a:unchanged b:applied", "b", "a"},
		{"the selected one was not applied", "a:applied b:applied c:refused", "c", "b a"},
		{"no profile", "a:applied :no-profile b:applied", "b", "a"},
		{"none is selected", "a:applied b:applied", "", "b a"},
		{"no longer defined", "x:applied b:applied", "b", ""},
		{"nothing else", "b:applied b:unchanged", "b", ""},
		{"nothing", "", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var all []Entry
			for word := range strings.FieldsSeq(test.runs) {
				profile, result, _ := strings.Cut(word, ":")
				all = append(all, Entry{Profile: profile, Result: runstate.Result(result)})
			}
			var got []string
			for _, e := range Former(all, test.selected, func(p string) bool { return p != "x" }) {
				got = append(got, e.Profile)
			}
			if diff := cmp.Diff(test.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
