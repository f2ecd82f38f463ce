package config_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/config"
	"dcm/internal/engine/config/configtest"
	"dcm/internal/engine/config/source"
)

func FuzzLoad(f *testing.F) {
	for _, test := range bad {
		f.Add(test.text)
	}
	f.Add("profile = \"a b\"\n[clients]\nunits = [\"x@\"]\n[profiles.\"a b\"]\nskip = [1]\n[[profiles.\"a b\".group]]\ncompute = \"CPX\"\ncount = \"rest\"\n")
	f.Add("a = \"\\\x00\"\nb = \"\u009b\"")
	f.Add("profile = \"all-1g.10gb.me\"\n[profiles.m]\ncompute = \"CPX\"\n[[profiles.m.group]]\nmig = { \"1c.3g.40gb\" = 4, \"1g.10gb+me\" = 1 }\n" +
		"device = [\"0x2330\", \"0x20b210DE:0x153310de\"]\ncount = \"rest\"\n[[profiles.m.group]]\nmig = \"off\"\ngpus = [0]\n[profiles.n]\nmig = {}\n")
	f.Add("gpu.library = '/x'\napply = {device-timeout = \"1m\", reboot = \"once\"}\nprofiles.x.compute = 'SPX'\n")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > source.MaxFileBytes || !utf8.ValidString(text) {
			return // refused when the file is read
		}
		c, err := config.LoadText("f", text)
		if err != nil {
			configtest.Placed(t, text, err)
			return
		}
		again, err := config.LoadText("again", config.Format(c))
		if err != nil {
			t.Fatalf("%v\nin what was written for it:\n%s", err, config.Format(c))
		}
		if diff := configtest.Diff(c, again); diff != "" {
			t.Errorf("read, written and read again (-want +got):\n%s", diff)
		}
	})
}

func FuzzCommandLine(f *testing.F) {
	f.Add("ro dcm.profile=none \"a b\"=c x=\"y z\"")
	f.Fuzz(func(t *testing.T, line string) {
		for _, arg := range config.Arguments(line) {
			if strings.ContainsAny(arg, config.Blanks) && !strings.Contains(line, `"`) {
				t.Errorf("argument %q of %q", arg, line)
			}
		}
		if !strings.Contains(line, `"`) {
			if diff := cmp.Diff(strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(config.Blanks, r) }), append([]string{}, config.Arguments(line)...)); diff != "" {
				t.Errorf("without quotes (-want +got):\n%s", diff)
			}
		}
		if _, err := config.LoadCommandLine(line); err != nil {
			var all *source.Errors
			if !errors.As(err, &all) || all.Problems[0].File != config.CommandLine {
				t.Errorf("problem %v", err)
			}
		}
	})
}
