package amdgpu

import (
	"errors"
	"testing"
	"unicode"
)

// FuzzSMIReply checks that any output of dcm-smi is an error or a reply, each with one line of
// text.
func FuzzSMIReply(f *testing.F) {
	for _, s := range []string{
		`{"library":"/l","version":"27.1.0","compute":{"known":true},"gpus":[{"address":"0000:05:00.0","name":"n","notes":["x"]}]}`,
		`{"error":{"kind":"refused","text":"t\u001b[2J","status":30}}`, `{"set":{"gpu":"0000:05:00.0","mode":"CPX","number":5}}`,
		`{"version":"\u202e"}`, `null`, `{}{}`, `{"gpus":[null]}`, `[]`, "\xff", `{"error":null,"memory":null}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, out []byte) {
		reply, err := parseSMIReply(out)
		texts := []string{reply.Library, reply.Version, reply.Compute.Why, reply.Memory.Why, reply.library().String()}
		for _, g := range reply.GPUs {
			texts = append(append(texts, string(g.Address), g.Name, g.Serial, g.UUID, g.Compute, g.Memory, g.Driver, g.DriverVersion), g.Notes...)
		}
		if reply.Set != nil {
			texts = append(texts, reply.Set.Mode, reply.Set.Before, reply.Set.After, reply.Set.Function)
		}
		if err == nil && reply.Error != nil {
			err = &SMIError{"inventory", "", reply.Error.Kind, reply.Error.Status, reply.Error.err()}
		}
		var failed *SMIError
		if errors.As(err, &failed) {
			texts = append(texts, err.Error(), failed.Hint())
		}
		for _, text := range texts {
			for _, r := range text {
				if !unicode.IsPrint(r) {
					t.Fatalf("got %q", text)
				}
			}
		}
	})
}

func TestSMIError_NamesRequest(t *testing.T) {
	cause := errors.New("bad data")
	for _, tt := range []struct{ do, want string }{
		{"version", "libamd_smi: cannot read the version: bad data"},
		{"inventory", "libamd_smi: cannot list the GPUs: bad data"},
		{"set-compute", "libamd_smi: bad data"},
	} {
		if got := (&SMIError{Do: tt.do, GPU: "0000:05:00.0", Err: cause}).Error(); got != tt.want {
			t.Errorf("error of %q is %q, want %q", tt.do, got, tt.want)
		}
	}
}
