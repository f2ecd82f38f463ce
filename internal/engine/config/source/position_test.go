package source

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// Each value is the number of the line that its key, or the element, stands on.
var positionTexts = map[string]string{
	"top level":        "a = 1\n\nb = 3",
	"comments":         "# x = 9\na = 2 # b = 9\n# [t]\nb = 4",
	"dotted keys":      "a.b.c = 1\na.b.d = 2\n a . e = 3",
	"tables":           "[t]\na = 2\n[t.u]\na = 4\n[ v . w ]\na = 6",
	"table after key":  "a = 1\n[t]\n\nb = 4",
	"supertable later": "[t.u]\na = 2\n[t]\nb = 4",
	"array of tables":  "[[g]]\na = 2\n[[g]]\na = 4\n[[g.h]]\na = 6\n[[g.h]]\na = 8\n[g.i]\na = 10",
	"inline table":     "t = {a = 1, b.c = 1, \"d\" = 1}\nu = {\n a = 3,\n # x\n b = {c = 5},\n}\nz = 7",
	"array":            "a = [1, 1,\n 2, # 9\n\n 4]\nb = [\n]\nc = 7",
	"array of inline":  "g = [{a = 1},\n {a = 2, b = [\n3]}]\nz = 4",
	"nested arrays":    "g = [[1,\n2],\n[3]]\nz = 4",
	"quoted keys":      "\"a b\" = 1\n'c\"d' = 2\n\"e\\\"f\" = 3\n\"\\u0067\" = 4\n\"\" = 5\n[\"t.u\".'v']\nw = 7\n\"x#]\" = 8",
	"strings":          "a = [\"]\", '#', \"\\\"\",\n 2]\nb = 3",
	"long strings":     "a = [\"\"\"\nx = 9\n\\\"\"\"\\\"\n\"\"\"\"\", 4]\nb = ['''\n[t]\n'x''''', 7]\nc = 8",
	"line joined":      "a = [\"\"\"x \\\n  y\"\"\", 2]\nb = 3",
	"carriage returns": "a = 1\r\n\r\n[t]\r\nb = 4\r\nc = [5,\r\n6]\r\n",
	"odd values":       "a = 1\nd = [1979-05-27 07:32:00, 2]\nf = [+1.5e3, inf, true, 3]\ng = 4",
	"byte order mark":  "\ufeffa = 1\nb = 2",
}

func TestParseTOML_Lines(t *testing.T) {
	for name, text := range positionTexts {
		t.Run(name, func(t *testing.T) {
			root, broken := ParseTOML("f", text)
			if broken != nil {
				t.Fatal(broken)
			}
			check(t, text, "", root)
		})
	}
}

// check compares each integer with the line found for it.
func check(t *testing.T, text, key string, n *Node) {
	t.Helper()
	for k, child := range Children(n) {
		check(t, text, DottedKey(key, k), child)
	}
	for _, item := range n.Items() {
		check(t, text, key+"[]", item)
	}
	if v, ok := n.Value.(int64); ok && int(v) != n.Line {
		t.Errorf("%s = %d was found on line %d of\n%s", key, v, n.Line, text)
	}
}

func TestParseTOML_LinesOfTables(t *testing.T) {
	root, broken := ParseTOML("f", "[a.b]\nx = 1\n[a]\ny = 1\n[[g]]\n[[g]]\n[c.d.e]\n")
	if broken != nil {
		t.Fatal(broken)
	}
	for path, want := range map[string]int{"a": 3, "a.b": 1, "g": 5, "c": 7, "c.d.e": 7} {
		if got := root.At(strings.Split(path, ".")...).Line; got != want {
			t.Errorf("%s was found on line %d, want %d", path, got, want)
		}
	}
	if got := root.At("g").Items()[1].Line; got != 6 {
		t.Errorf("the second g was found on line %d, want 6", got)
	}
}

func TestParseTOML_DeepNesting(t *testing.T) {
	const n = 200_000
	for name, text := range map[string]string{
		"dotted key": "a = 1\n" + strings.Repeat("a.", n) + "a = 1",
		"header":     "\n[" + strings.Repeat("a.", n) + "a]",
		"array":      "\na = " + strings.Repeat("[", n) + strings.Repeat("]", n),
		"inline":     "\na = " + strings.Repeat("{a = ", n) + "1" + strings.Repeat("}", n),
	} {
		_, broken := ParseTOML("f", text)
		if broken == nil || broken.String() != "f:2: nested more than 16 deep" {
			t.Errorf("%s: %v", name, broken)
		}
	}
}

func FuzzPositions(f *testing.F) {
	for _, text := range positionTexts {
		f.Add(text)
	}
	f.Add("gpu.library = '/x'\napply = {device-timeout = \"1m\", reboot = \"once\"}\nprofiles.x.compute = 'SPX'\n")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > MaxFileBytes || !utf8.ValidString(text) {
			return // refused when the file is read
		}
		if root, broken := ParseTOML("f", text); broken == nil {
			found(t, text, "", root)
		}
	})
}

// found fails if positions did not find the key of a node on the line that the
// node says: the line must hold the key, where it is spelled plainly.
func found(t *testing.T, text, key string, n *Node) {
	t.Helper()
	lines := strings.Split(text, "\n")
	for k, child := range Children(n) {
		if child.Line < 1 || child.Line > len(lines) {
			t.Fatalf("%s was found on line %d of %d", DottedKey(key, k), child.Line, len(lines))
		}
		if BareOrQuoted(k) == k && !strings.Contains(text, `\`) && !strings.Contains(lines[child.Line-1], k) {
			t.Errorf("%s was found on line %d, which is %q", DottedKey(key, k), child.Line, lines[child.Line-1])
		}
		found(t, text, DottedKey(key, k), child)
	}
	for _, item := range n.Items() {
		found(t, text, key, item)
	}
}
