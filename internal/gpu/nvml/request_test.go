package nvml

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestRequest_Invalid(t *testing.T) {
	for text, want := range map[string]string{
		``:                                   "not a request",
		`{"do":"x"}`:                         `unknown request "x": accepted are look, mode, fill, clear`,
		`{"do":"look","on":true}`:            `"look" takes neither`,
		`{"do":"look","gpus":["41:00.0"]}`:   "PCI address like 0000:41:00.0",
		`{"do":"look"}{}`:                    "text follows",
		`{"do":"look","force":true}`:         "unknown field",
		`{"do":"mode","gpu":"0000:41:00.0"}`: `"mode" needs on`,
		`{"do":"clear","gpu":"0000:41:00.0","on":false}`:   `"mode" needs on`,
		`{"do":"clear","gpu":"0000:41:00.0","usage":true}`: "neither gpus nor usage",
		`{"do":"clear","gpu":"0000:41:00.0","nodes":true}`: "neither gpus nor usage nor nodes",
		`{"do":"clear"}`: `not ""`,
		`{"do":"clear","gpu":"0000:41:00.0","instances":[{"profile":"3g"}]}`:                                                         "not a MIG profile",
		`{"do":"mode","gpu":"0000:41:00.0","on":true,"instances":[{"profile":"3g.40gb","start":0}]}`:                                 `"mode" takes no instances`,
		`{"do":"fill","gpu":"0000:41:00.0"}`:                                                                                         `"fill" needs instances`,
		`{"do":"fill","gpu":"0000:41:00.0","instances":[{"profile":"3g","start":0}]}`:                                                "not a MIG profile",
		`{"do":"fill","gpu":"0000:41:00.0","instances":[{"profile":"1c.3g.40gb","start":0}]}`:                                        "not the profile of a GPU instance",
		`{"do":"fill","gpu":"0000:41:00.0","instances":[{"profile":"MIG 3g.40gb","start":0}]}`:                                       "not the profile of a GPU instance",
		`{"do":"fill","gpu":"0000:41:00.0","instances":[{"profile":"3g.40gb","start":-1}]}`:                                          "a slot must be 0 to 63",
		`{"do":"fill","gpu":"0000:41:00.0","instances":[{"profile":"3g.40gb","compute":["1c.4g.40gb"]}]}`:                            "compute instance in 3g.40gb",
		`{"do":"fill","gpu":"0000:41:00.0","instances":[` + strings.Repeat(`{"profile":"1g.10gb"},`, 40) + `{"profile":"1g.10gb"}]}`: "41 instances: at most 32",
	} {
		_, err := ParseRequest([]byte(text))
		var f *Failure
		if !errors.As(err, &f) || f.Kind != BadRequest || !strings.Contains(f.Text, want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// FuzzRequest: what is accepted says the same when it is written down again.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{
		`{"do":"look","gpus":["0000:41:00.0"],"usage":true}`, `{"do":"mode","gpu":"0000:41:00.0","on":false}`, `{"do":"clear","gpu":"0000:41:00.0"}`,
		`{"do":"fill","gpu":"0000:41:00.0","instances":[{"profile":"3g.40gb","start":4,"compute":["1c.3g.40gb"]}]}`, `null`, `{"DO":"look"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ParseRequest(data)
		if err != nil {
			return
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseRequest(text)
		if written, _ := json.Marshal(again); err != nil || !reflect.DeepEqual(written, text) {
			t.Fatalf("%s is read again as %s, %v", text, written, err)
		}
	})
}
