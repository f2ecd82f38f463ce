package selection

import (
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/config"
	"dcm/internal/engine/config/configtest"
)

// TestSelectUnconfirmed runs one command per word: "use:X" and "apply:X" select X for 10 minutes, "keep:X" and
// "reboot:X" select it without a deadline, "wait" lets the deadline pass, "edit:X" edits dcm.toml, "boot" removes the
// files in /run, and "end" is what the daemon does.
func TestSelectUnconfirmed(t *testing.T) {
	for _, test := range []struct{ name, commands, want string }{
		{"before the deadline", "use:d", "d until a"},
		{"after the deadline", "use:d wait", "a"},
		{"after the deadline, by the daemon", "use:d wait end", "a"},
		{"confirmed", "use:d confirm wait", "d"},
		{"confirmed until reboot", "apply:d confirm wait", "d"},
		{"confirmed, then booted", "use:d confirm boot", "d"},
		{"confirmed until reboot, then booted", "apply:d confirm boot", "a"},
		{"booted before the deadline", "use:d boot", "a"},
		{"confirmed after the deadline", "use:d wait confirm", "a; not confirmed"},
		{"confirmed after its end", "use:d wait end confirm", "a; not confirmed"},
		{"another profile confirmed", "use:d confirm:e", "d until a; not confirmed"},
		{"confirmed by name", "use:d confirm:d boot", "d"},
		{"confirmed twice", "use:d confirm confirm", "d; not confirmed"},
		{"confirmed without a selection", "confirm", "a; not confirmed"},
		{"former until reboot", "reboot:d apply:e", "e until d"},
		{"former until reboot, after the deadline", "reboot:d apply:e wait", "d"},
		{"former until reboot, by the daemon", "reboot:d use:e wait end", "d"},
		{"former until reboot, by the daemon, then booted", "reboot:d use:e wait end boot", "a"},
		{"former until reboot is none", "reboot:none use:e wait end", "none"},
		{"none", "use:none", "none until a"},
		{"none, confirmed", "use:none confirm boot", "none"},
		{"replaced by an unconfirmed one", "use:d apply:e", "e until a"},
		{"replaced by an unconfirmed one, after the deadline", "use:d apply:e wait end", "a"},
		{"both after one until reboot", "reboot:d use:e use:a", "a until d"},
		{"replaced", "use:d keep:e wait end", "e"},
		{"replaced until reboot", "use:d reboot:e wait end", "e"},
		{"edited", "use:d edit:e", "e"},
		{"edited, then confirmed", "use:d edit:e confirm", "e; not confirmed"},
		{"edited, after the deadline", "use:d edit:e wait end", "e"},
		{"the end of another selection is late", "use:d wait reboot:e end", "e"},
		{"the same profile", "use:a wait end", "a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := configtest.Files{"etc/dcm/dcm.toml": "profile = \"a\"\n" + three + "[profiles.e]\ncompute = \"QPX\"\n"}.Write(t)
				var unconfirmed string
				for command := range strings.FieldsSeq(test.commands) {
					if execute(t, p, command) {
						unconfirmed = "; not confirmed"
					}
				}
				if diff := cmp.Diff(test.want, effective(t, p)+unconfirmed); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

// execute runs a command of the table. It reports whether there was nothing to confirm.
func execute(t *testing.T, p config.Paths, command string) bool {
	t.Helper()
	verb, profile, _ := strings.Cut(command, ":")
	var err error
	switch verb {
	case "use", "apply":
		err = SelectUnconfirmed(p, profile, 10*time.Minute, verb == "use")
	case "keep":
		err = Select(p, profile)
	case "reboot":
		err = SelectRuntime(p, profile)
	case "confirm":
		if _, err = Confirm(p, profile); errors.Is(err, ErrNoneUnconfirmed) {
			return true
		}
	case "wait":
		time.Sleep(10 * time.Minute)
	case "edit":
		text := configtest.Content(t, p.Admin)
		err = os.WriteFile(p.Admin, []byte(strings.Replace(text, `profile = "a"`, `profile = "`+profile+`"`, 1)), 0o644)
	case "boot":
		err = os.RemoveAll(p.Runtime)
	case "end":
		err = EndRuntime(p)
	default:
		t.Fatalf("unknown command %q", command)
	}
	configtest.Must(t, err)
	return false
}

func effective(t *testing.T, p config.Paths) string {
	t.Helper()
	cfg, err := config.Load(p)
	configtest.Must(t, err)
	text := config.OrNone(cfg.Selected)
	if u := cfg.Unconfirmed; u != nil {
		text += " until " + config.OrNone(u.Former)
	}
	return text
}

func TestSelectUnconfirmed_Refused(t *testing.T) {
	for _, test := range []struct {
		name, profile string
		within        time.Duration
		over          configtest.Files
		want          string
	}{
		{"unknown profile", "x", time.Minute, nil, "nothing was changed: "},
		{"time too short", "d", time.Second, nil, "the time to confirm is out of range (found 1s, want "},
		{"a confirmation would fail", "d", time.Minute, configtest.Files{"etc/dcm/dcm.toml.d/50.toml": "profile = \"a\"\n"}, "which has precedence over"},
	} {
		t.Run(test.name, func(t *testing.T) {
			files := configtest.Files{"etc/dcm/dcm.toml": "profile = \"a\"\n" + three}
			for file, text := range test.over {
				files[file] = text
			}
			p := files.Write(t)
			err := SelectUnconfirmed(p, test.profile, test.within, true)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
			if got := effective(t, p); got != "a" {
				t.Errorf("selected %s", got)
			}
		})
	}
}
