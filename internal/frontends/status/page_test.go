package status

import (
	"encoding"
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestManualPage_MatchesJSON compares dcm-account(5) with the types: both have the same keys with
// values of the same kinds.
func TestManualPage_MatchesJSON(t *testing.T) {
	text, err := os.ReadFile("../../../packaging/man/dcm-account.5")
	if err != nil {
		t.Fatal(err)
	}
	_, keys, ok := strings.Cut(string(text), ".SH KEYS\n")
	if !ok {
		t.Fatal("dcm-account(5) has no section KEYS")
	}
	keys, _, _ = strings.Cut(keys, "\n.SH ")
	documented := make(map[string]string)
	for _, line := range regexp.MustCompile(`(?m)^\.BR? (.*) "? ?\((\w+)\)"?$`).FindAllStringSubmatch(keys, -1) {
		for _, key := range regexp.MustCompile(`[a-z_]+[][.*a-z_]*`).FindAllString(line[1], -1) {
			documented[key] = line[2]
		}
	}
	want := make(map[string]string)
	forms(want, "", reflect.TypeFor[Account]())
	if diff := cmp.Diff(want, documented); diff != "" {
		t.Errorf("keys of dcm-account(5) (-types +page):\n%s", diff)
	}
	for _, s := range States() {
		if !strings.Contains(string(text), "\n.B "+strings.ReplaceAll(string(s), "-", `\-`)+"\n") {
			t.Errorf("dcm-account(5) lacks the state %s", s)
		}
	}
}

// forms adds the keys of a type, such as "gpus[].address", with the kinds of their values.
func forms(to map[string]string, at string, t reflect.Type) {
	kind := map[reflect.Kind]string{reflect.String: "string", reflect.Bool: "boolean", reflect.Slice: "list", reflect.Map: "object",
		reflect.Struct: "object", reflect.Pointer: "object", reflect.Int: "number", reflect.Uint32: "number", reflect.Uint64: "number", reflect.Float64: "number"}
	switch {
	case t == reflect.TypeFor[time.Time]():
		to[at] = "time"
		return
	case t.Kind() == reflect.Pointer && t.Elem().Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		to[at] = "string"
		return
	case at != "":
		to[at] = kind[t.Kind()]
	}
	switch t.Kind() {
	case reflect.Pointer:
		forms(to, at, t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Struct {
			forms(to, at+"[]", t.Elem())
			delete(to, at+"[]")
		}
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case name == "-":
			case f.Anonymous:
				fields := make(map[string]string)
				forms(fields, at, f.Type)
				delete(fields, at)
				maps.Copy(to, fields)
			case at == "":
				forms(to, name, f.Type)
			default:
				forms(to, at+"."+name, f.Type)
			}
		}
	}
}

func TestJSON_NoNullList(t *testing.T) {
	text, err := json.Marshal(Account{GPUs: []GPU{{}}, Holders: []Holder{{}}})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "null") {
		t.Errorf("null in the JSON form: %s", text)
	}
	var back Account
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if len(back.GPUs) != 1 {
		t.Errorf("decoded: %+v", back)
	}
}
