package cli

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"dcm/internal/app/cli/configure"
	"dcm/internal/app/cli/query"
	"dcm/internal/engine/history"
	"dcm/internal/frontends/status"
)

// TestJSON_KeysDocumented: dcm-account(5) has the JSON keys of commands that print more than
// the status.
func TestJSON_KeysDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../packaging/man/dcm-account.5")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), ".SH OTHER ANSWERS\n")
	section, _, _ = strings.Cut(section, "\n.SH ")
	for command, answer := range map[string]reflect.Type{
		"History()": reflect.TypeFor[history.Entry](), "holders": reflect.TypeFor[query.PlacedHolder](), "holders --units": reflect.TypeFor[query.HolderUnit](),
		"plan": reflect.TypeFor[query.Plan](), "verify": reflect.TypeFor[query.Verification](), "history": reflect.TypeFor[query.History](), "profiles": reflect.TypeFor[configure.Profile](), "top": reflect.TypeFor[status.Usage](),
	} {
		heading := "dcm " + command
		if strings.HasSuffix(command, "()") {
			heading = command // a method of D-Bus
		}
		_, text, ok := strings.Cut(section, "\n.B "+strings.ReplaceAll(heading, "-", `\-`)+"\n")
		if !ok {
			t.Errorf("dcm %s is not there", command)
			continue
		}
		text, _, _ = strings.Cut(text, "\n.TP\n")
		for i := range answer.NumField() {
			key, _, _ := strings.Cut(answer.Field(i).Tag.Get("json"), ",")
			if !regexp.MustCompile(`\b` + key + `\b`).MatchString(text) {
				t.Errorf("dcm %s answers with %s, which is not documented", command, key)
			}
			if kind := answer.Field(i).Type.Kind(); kind == reflect.Slice && strings.Contains(answer.Field(i).Tag.Get("json"), "omitempty") {
				t.Errorf("dcm %s leaves the list %s out", command, key)
			}
		}
	}
}
