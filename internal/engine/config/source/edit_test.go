package source

import (
	"os"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestSetKey(t *testing.T) {
	for _, test := range []struct{ name, text, profile, want string }{
		{"empty", "", "a", "profile = \"a\"\n"},
		{"replaced", "version = 1\nprofile = \"a\"\n", "b", "version = 1\nprofile = \"b\"\n"},
		{"layout and comment", "  profile='a'   # ours, \"profile\"\n\n[apply]\n", "b c", "  profile=\"b c\"   # ours, \"profile\"\n\n[apply]\n"},
		{"quoted key", "\"profile\" = \"a\"", "b", "\"profile\" = \"b\""},
		{"long strings", "profile = \"\"\"a\"\"\"\nversion = 1\n", "b", "profile = \"b\"\nversion = 1\n"},
		{"below the example", "# head\n\n# why\n#profile = \"x\"  # an example\n\n[clients]\nunits = [\"a\"] # profile = 1\n", "b",
			"# head\n\n# why\n#profile = \"x\"  # an example\nprofile = \"b\"\n\n[clients]\nunits = [\"a\"] # profile = 1\n"},
		{"below other keys", "# head\nversion = 1 # one\n# on clients\n[clients]\n", "b", "# head\nversion = 1 # one\nprofile = \"b\"\n# on clients\n[clients]\n"},
		{"above the tables", "# on clients\n[clients]\nunits = []\n", "b", "profile = \"b\"\n\n# on clients\n[clients]\nunits = []\n"},
		{"no line end", "version = 1", "b", "version = 1\nprofile = \"b\"\n"},
		{"example without a line end", "#profile = \"x\"", "b", "#profile = \"x\"\nprofile = \"b\"\n"},
		{"of Windows", "version = 1\r\n[apply]\r\n", "b", "version = 1\r\nprofile = \"b\"\r\n[apply]\r\n"},
		{"byte order mark", "\ufeff[apply]\n", "b", "\ufeffprofile = \"b\"\n\n[apply]\n"},
		{"key of another table", "[x]\nprofile = \"a\"\n", "b", "profile = \"b\"\n\n[x]\nprofile = \"a\"\n"},
		{"example in a string", "x = '''\n#profile = \"a\"\n'''\n[apply]\n", "b", "x = '''\n#profile = \"a\"\n'''\nprofile = \"b\"\n[apply]\n"},
		{"example in a table", "[apply]\n#profile = \"a\"\n", "b", "profile = \"b\"\n\n[apply]\n#profile = \"a\"\n"},
		{"over several lines", "x = [ # profile = 1\n  'a',\n]\n[apply]\n", "b", "x = [ # profile = 1\n  'a',\n]\nprofile = \"b\"\n[apply]\n"},
		{"none", "profile = \"a\"\n", "none", "profile = \"none\"\n"},
		{"taken out", "version = 1\nprofile = \"a\"\n\n[apply]\n", "", "version = 1\n\n[apply]\n"},
		{"taken out, comment kept", "profile = \"a\"  # ours\n[apply]\n", "", "# ours\n[apply]\n"},
		{"taken out at the end", "version = 1\r\nprofile = \"a\"\r\n", "", "version = 1\r\n"},
		{"taken out where nothing is", "[apply]\n", "", "[apply]\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := SetKey(test.text, "profile", test.profile)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
			if again, err := SetKey(got, "profile", test.profile); err != nil || again != got {
				t.Errorf("the second time: %q, %v", again, err)
			}
		})
	}
}

func TestSetKey_ShippedFile(t *testing.T) {
	shipped, err := os.ReadFile("../../../../packaging/dcm.toml")
	if err != nil {
		t.Fatal(err)
	}
	text := string(shipped)
	got, err := SetKey(text, "profile", "spx-nps1")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(text, "# an example\n", "# an example\nprofile = \"spx-nps1\"\n", 1)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	if back, err := SetKey(got, "profile", ""); err != nil || back != text {
		t.Errorf("taken out again it is not as before: %v\n%s", err, cmp.Diff(text, back))
	}
}

func FuzzEdit(f *testing.F) {
	for _, text := range positionTexts {
		f.Add(text, "b c")
	}
	f.Add("x = [\n#profile = 1\n]\n\"profile\" = \"\"\"\na\"\"\" # x\r\n", "")
	f.Fuzz(func(t *testing.T, text, name string) {
		if len(text) > MaxFileBytes || !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return
		}
		if _, broken := ParseTOML("f", text); broken != nil {
			return
		}
		edited, err := SetKey(text, "profile", name)
		if err != nil {
			if strings.Contains(text, "profile") {
				return // a table of that name, say: refused, and not written
			}
			t.Fatalf("%v\n%q", err, text)
		}
		if strings.Count(text, "#") > strings.Count(edited, "#")+strings.Count(text, "\"") {
			t.Errorf("a comment is gone: %q became %q", text, edited)
		}
	})
}
