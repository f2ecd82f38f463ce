package sanitize

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"":                        "",
		"python3":                 "python3",
		`dev-disk\x2d1.device`:    `dev-disk\x2d1.device`,
		"Zoë 北京 ½":                "Zoë 北京 ½",
		"\xff\x1b[31m":            `\xff\x1b[31m`,
		"a\nb\tc\r\x00":           `a\nb\tc\x0d\x00`,
		"\u009b31m\x7f":           `\u009b31m\x7f`,
		"abc\u202edcba\u2066":     `abc\u202edcba\u2066`,
		"\u200b\ufeff\u2028":      `\u200b\ufeff\u2028`,
		"\u00a0":                  `\u00a0`,
		"\U000e0041":              `\U000e0041`,
		"a\u3164\u115f\uffa0":     `a\u3164\u115f\uffa0`, // Hangul fillers
		"a\ufe0f\u034f\u2800":     `a\ufe0f\u034f\u2800`, // a variation selector, a joiner, an empty Braille cell
		"\U000e0100":              `\U000e0100`,
		"\xed\xa0\x80":            `\xed\xa0\x80`, // a surrogate is no UTF-8
		"\ufffd":                  "\ufffd",
		strings.Repeat("x", 2000): strings.Repeat("x", longest-3) + "…",
	} {
		if got := Text(in); got != want {
			t.Errorf("Text(%q) is %q, want %q", in, got, want)
		}
	}
	if got := Lines("a\tb\n\x1b"); got != "a\tb\n"+`\x1b` {
		t.Errorf("Lines is %q", got)
	}
}

// FuzzText: whatever comes in, what goes on is UTF-8, can be seen, has an end, and
// is not escaped again.
func FuzzText(f *testing.F) {
	f.Add("python3\xff\x1b[31m")
	f.Add(strings.Repeat("é\xff", 600))
	f.Add(strings.Repeat("x", longest-1) + "…")
	f.Fuzz(func(t *testing.T, s string) {
		for name, one := range map[string]struct {
			do    func(string) string
			kept  string
			limit int
		}{"Text": {Text, "", longest}, "Lines": {Lines, "\n\t", largest}} {
			got := one.do(s)
			odd := strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) && !strings.ContainsRune(one.kept, r) })
			if !utf8.ValidString(got) || odd || len(got) > one.limit {
				t.Errorf("%s(%q) is %q", name, s, got)
			}
			if again := one.do(got); again != got {
				t.Errorf("%s again makes %q of %q", name, again, got)
			}
		}
	})
}

func TestName(t *testing.T) {
	n := Named("/etc/dcm").Join("z\xff\x1b.toml")
	if n.Raw() != "/etc/dcm/z\xff\x1b.toml" || n.Dir().Raw() != "/etc/dcm" {
		t.Errorf("the name was not kept: %q", n.Raw())
	}
	const want = `/etc/dcm/z\xff\x1b.toml`
	text, err := json.Marshal(map[string]Name{"n": n})
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("m", "n", n)
	for how, got := range map[string]string{
		"q": fmt.Sprintf("%q", n), "v": fmt.Sprint(n), "+v": fmt.Sprintf("%+v", n), "#v": fmt.Sprintf("%#v", n),
		"slice": fmt.Sprint([]Name{n}), "json": string(text), "slog": log.String(),
	} {
		got = strings.ReplaceAll(got, `\\`, `\`) // a second language's own escape
		if !strings.Contains(got, want) || strings.Contains(got, "\xff") {
			t.Errorf("%s prints %q, want %q in it", how, got, want)
		}
	}
}

func TestError(t *testing.T) {
	err := Error(&fs.PathError{Op: "open", Path: "/z\xff", Err: fs.ErrNotExist})
	if !errors.Is(err, fs.ErrNotExist) || err.Error() != `open /z\xff: file does not exist` {
		t.Errorf("%q, which is %v", err, errors.Is(err, fs.ErrNotExist))
	}
	if plain := errors.New("busy\nhint: wait"); Error(plain) != plain {
		t.Error("an error without foreign text was changed")
	}
	if Error(nil) != nil {
		t.Error("nil became an error")
	}
}

func TestJSON(t *testing.T) {
	var got struct {
		Name  string   `json:"name"`
		Notes []string `json:"notes"`
		ID    uint64   `json:"id"`
	}
	if err := JSON([]byte(`{"name":"\u001b[31m","notes":["a\nb","\u202e"],"id":18446744073709551615}`), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{`\x1b[31m`, "a\nb", `\u202e`}, append([]string{got.Name}, got.Notes...)); diff != "" || got.ID != 1<<64-1 {
		t.Errorf("id %d, strings (-want +got):\n%s", got.ID, diff)
	}
	for _, bad := range []string{"", "{", `{"name":7}`, `{} {}`, "\x1b"} {
		if err := JSON([]byte(bad), &got); err == nil || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
