package config

import (
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// same compares what configurations mean, not where it stands.
func same(a, b *Config) string {
	x, y := *a, *b
	x.Source, x.LastingSource, x.Origin, x.Warnings = "", "", nil, nil
	y.Source, y.LastingSource, y.Origin, y.Warnings = "", "", nil, nil
	return cmp.Diff(x, y, cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "Reservations.Source" }, cmp.Ignore()))
}

// placed fails if a problem does not tell its file, a line that the file has, and
// what is wrong, on one line of text.
func placed(t *testing.T, text string, err error) {
	t.Helper()
	var all *Errors
	if !errors.As(err, &all) || len(all.Problems) == 0 {
		t.Fatalf("not an *Errors: %v", err)
	}
	for _, p := range all.Problems {
		if p.File != "f" || p.Line < 1 || p.Line > 1+strings.Count(text, "\n") || p.Text == "" {
			t.Errorf("problem %#v of a text with %d lines", p, 1+strings.Count(text, "\n"))
		}
		if s := p.String(); strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("a problem that is no line of text: %q", s)
		}
	}
}

func FuzzLoad(f *testing.F) {
	for _, test := range bad {
		f.Add(test.text)
	}
	for _, text := range positions {
		f.Add(text)
	}
	f.Add("profile = \"a b\"\n[clients]\nunits = [\"x@\"]\n[profiles.\"a b\"]\nskip = [1]\n[[profiles.\"a b\".group]]\ncompute = \"CPX\"\ncount = \"rest\"\n")
	f.Add("a = \"\\\x00\"\nb = \"\u009b\"")
	f.Add("profile = \"all-1g.10gb.me\"\n[profiles.m]\ncompute = \"CPX\"\n[[profiles.m.group]]\nmig = { \"1c.3g.40gb\" = 4, \"1g.10gb+me\" = 1 }\n" +
		"device = [\"0x2330\", \"0x20b210DE:0x153310de\"]\ncount = \"rest\"\n[[profiles.m.group]]\nmig = \"off\"\ngpus = [0]\n[profiles.n]\nmig = {}\n")
	f.Add("gpu.library = '/x'\napply = {device-timeout = \"1m\", reboot = \"once\"}\nprofiles.x.compute = 'SPX'\n")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > largest || !utf8.ValidString(text) {
			return // refused when the file is read
		}
		if root, broken := parseTOML("f", text); broken == nil {
			found(t, text, "", root)
		}
		c, err := assemble([]layer{{file: "f", text: text, form: readTOML}}, nil, "")
		if err != nil {
			placed(t, text, err)
			return
		}
		again, err := assemble([]layer{{file: "again", text: Format(c), form: readTOML}}, nil, "")
		if err != nil {
			t.Fatalf("%v\nin what was written for it:\n%s", err, Format(c))
		}
		if diff := same(c, again); diff != "" {
			t.Errorf("read, written and read again (-want +got):\n%s", diff)
		}
	})
}

// found fails if the finder did not find the key of a node on the line that the
// node says: the line must hold the key, where it is spelled plainly.
func found(t *testing.T, text, key string, n *node) {
	t.Helper()
	lines := strings.Split(text, "\n")
	for k, child := range tables(n) {
		if child.line < 1 || child.line > len(lines) {
			t.Fatalf("%s was found on line %d of %d", dotted(key, k), child.line, len(lines))
		}
		if bareOrQuoted(k) == k && !strings.Contains(text, `\`) && !strings.Contains(lines[child.line-1], k) {
			t.Errorf("%s was found on line %d, which is %q", dotted(key, k), child.line, lines[child.line-1])
		}
		found(t, text, dotted(key, k), child)
	}
	for _, item := range n.items() {
		found(t, text, key, item)
	}
}

func FuzzImport(f *testing.F) {
	f.Add(operators, 8)
	f.Add(mixed, 8)
	f.Add(mixed, 0)
	f.Add(fleet, 0)
	f.Add(fleet, 8)
	f.Add(mapHead+"  config.json: |\n"+indented(operators), 8)
	f.Add(`{"kind": "ConfigMap", "data": {"config.json": `+quote(operators)+`}}`, 0)
	f.Add("{\"gpu-config-profiles\": {},\n\"gpuClientSystemdServices\": {\"names\": [\"../x\",\nnull]}}", 4)
	f.Fuzz(func(t *testing.T, text string, gpus int) {
		out, _, err := Import("f", []byte(text), gpus, yaml.YAMLToJSONStrict)
		if err != nil {
			placed(t, text, err)
			return
		}
		c, err := assemble([]layer{{file: "out", text: out, form: readTOML}}, nil, "")
		if err != nil {
			t.Fatalf("%v\nin what was imported:\n%s", err, out)
		}
		direct, err := assemble([]layer{{file: "f", text: text, form: readKubernetes}}, nil, "")
		if err != nil && strings.Contains(err.Error(), ": not JSON;") {
			return // YAML is for import alone
		}
		if err != nil {
			t.Fatalf("imported, but not read as a layer: %v", err)
		}
		for name := range direct.Profiles {
			if _, ok := c.Profiles[name]; !ok && gpus > 0 {
				delete(direct.Profiles, name) // not for a node of so many GPUs
			}
		}
		direct.Unusable = nil
		if diff := same(direct, c); diff != "" {
			t.Errorf("as a layer and imported (-want +got):\n%s", diff)
		}
	})
}

func FuzzCommandLine(f *testing.F) {
	f.Add("ro dcm.profile=none \"a b\"=c x=\"y z\"")
	f.Fuzz(func(t *testing.T, line string) {
		for _, arg := range arguments(line) {
			if strings.ContainsAny(arg, blanks) && !strings.Contains(line, `"`) {
				t.Errorf("argument %q of %q", arg, line)
			}
		}
		if !strings.Contains(line, `"`) {
			if diff := cmp.Diff(strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(blanks, r) }), append([]string{}, arguments(line)...)); diff != "" {
				t.Errorf("without quotes (-want +got):\n%s", diff)
			}
		}
		if _, err := assemble(nil, nil, line); err != nil {
			var all *Errors
			if !errors.As(err, &all) || all.Problems[0].File != commandLine {
				t.Errorf("problem %v", err)
			}
		}
	})
}
