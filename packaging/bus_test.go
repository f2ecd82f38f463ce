package packaging_test

import (
	"bytes"
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	busPolicy = "dbus/org.deviceconfig.Manager1.conf"
	actions   = "polkit/org.deviceconfig.dcm.policy"
	busPage   = "man/org.deviceconfig.Manager1.5"
)

// rule is an <allow> or <deny> of a bus's policy.
type rule struct {
	Own         string `xml:"own,attr"`
	Destination string `xml:"send_destination,attr"`
	Interface   string `xml:"send_interface,attr"`
}

func TestBus_OnlyRootOwnsName(t *testing.T) {
	var config struct {
		Policies []struct {
			User    string `xml:"user,attr"`
			Context string `xml:"context,attr"`
			Allow   []rule `xml:"allow"`
			Deny    []rule `xml:"deny"`
		} `xml:"policy"`
	}
	if err := xml.Unmarshal([]byte(read(t, busPolicy)), &config); err != nil {
		t.Fatal(err)
	}
	owners, talkers := 0, 0
	for _, p := range config.Policies {
		for _, r := range p.Allow {
			switch {
			case r.Own != "" && (p.User != "root" || r.Own != "org.deviceconfig.Manager1"):
				t.Errorf("%q%q may own %s", p.User, p.Context, r.Own)
			case r.Own != "":
				owners++
			case p.Context == "default" && r.Interface == "":
				t.Errorf("everybody may send anything: %+v", r)
			case r.Destination != "org.deviceconfig.Manager1":
				t.Errorf("a rule is about another service: %+v", r)
			case p.Context == "default":
				talkers++
			}
		}
	}
	if owners != 1 || talkers == 0 {
		t.Errorf("%d rules let root own the name, %d let others talk to it", owners, talkers)
	}
}

// A bus refuses its whole configuration for one file that it cannot read.
func TestBus_PolicyLoads(t *testing.T) {
	need(t, "dbus-daemon")
	policy, err := filepath.Abs(busPolicy)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "bus.conf")
	text := `<busconfig><type>session</type><listen>unix:path=` + filepath.Join(dir, "bus") + `</listen><include>` + policy + `</include></busconfig>`
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	// It prints its address after it has read everything.
	cmd := exec.Command("dbus-daemon", "--nofork", "--print-address", "--config-file="+config)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 1)
	if _, err := out.Read(line); err != nil {
		t.Error("the bus does not start with it")
	}
	cmd.Process.Kill()
	cmd.Wait()
	if strings.Contains(stderr.String(), "Manager1.conf") {
		t.Error(stderr.String())
	}
}

// The actions are those that the program checks, each is described, and none
// is given away.
func TestPolkit_Defaults(t *testing.T) {
	var config struct {
		Actions []struct {
			ID          string `xml:"id,attr"`
			Description string `xml:"description"`
			Message     string `xml:"message"`
			Defaults    struct {
				Any      string `xml:"allow_any"`
				Inactive string `xml:"allow_inactive"`
				Active   string `xml:"allow_active"`
			} `xml:"defaults"`
		} `xml:"action"`
	}
	if err := xml.Unmarshal([]byte(read(t, actions)), &config); err != nil {
		t.Fatal(err)
	}
	var declared []string
	for _, a := range config.Actions {
		declared = append(declared, a.ID)
		for _, allow := range []string{a.Defaults.Any, a.Defaults.Inactive, a.Defaults.Active} {
			if !strings.HasPrefix(allow, "auth_admin") {
				t.Errorf("%s is allowed with %q", a.ID, allow)
			}
		}
		if a.Description == "" || a.Message == "" {
			t.Errorf("%s is not described", a.ID)
		}
	}
	quoted := regexp.MustCompile(`"(org\.deviceconfig\.dcm\.\w+)"`)
	var checked []string
	for _, m := range quoted.FindAllStringSubmatch(read(t, "../internal/frontends/dbusapi/names.go"), -1) {
		checked = append(checked, m[1])
	}
	slices.Sort(declared)
	slices.Sort(checked)
	if diff := cmp.Diff(checked, declared); diff != "" {
		t.Errorf("actions (-checked +declared):\n%s", diff)
	}
}

func TestManual_BusProperties(t *testing.T) {
	page := read(t, busPage)
	for _, file := range []string{"account.go", "errors.go", "methods.go"} {
		source := read(t, "../internal/frontends/dbusapi/"+file)
		for _, m := range regexp.MustCompile(`(?m)^\t\t\{(?:name: )?"(\w+)", `).FindAllStringSubmatch(source, -1) {
			if !regexp.MustCompile(`\b` + m[1] + `\b`).MatchString(page) {
				t.Errorf("the manual does not have %s", m[1])
			}
		}
		for _, m := range regexp.MustCompile(`"(org\.(?:freedesktop|deviceconfig)\.\S*Error\.\w+)"`).FindAllStringSubmatch(source, -1) {
			internal := regexp.MustCompile(`Unknown(Property|Interface)|InvalidArgs|PropertyReadOnly|NameHasNoOwner`)
			if !internal.MatchString(m[1]) && !strings.Contains(page, m[1]) {
				t.Errorf("the manual does not have the error %s", m[1])
			}
		}
	}
}

func TestManual_BusStates(t *testing.T) {
	page := read(t, busPage)
	states := regexp.MustCompile(`(?m)^\t\w+ +Phase = "([a-z-]+)"`).FindAllStringSubmatch(read(t, "../internal/engine/runstate/runstate.go"), -1)
	if len(states) < 6 {
		t.Fatalf("the states are %q", states)
	}
	for _, m := range states {
		if !strings.Contains(page, `\(dq`+strings.ReplaceAll(m[1], "-", `\-`)+`\(dq`) {
			t.Errorf("the manual does not have the state %s", m[1])
		}
	}
}
