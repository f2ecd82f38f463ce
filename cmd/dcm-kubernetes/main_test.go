package main

import (
	"testing"
)

func TestParse_Errors(t *testing.T) {
	none := func(string) string { return "" }
	tests := map[string]struct {
		args []string
		want string
	}{
		"no node":      {[]string{"-namespace=dcm"}, "-node: missing. hint: set -node or NODE_NAME"},
		"no namespace": {[]string{"-node=n1"}, "-namespace: missing. hint: set -namespace or POD_NAMESPACE"},
		"a word":       {[]string{"n1"}, `unknown argument "n1"`},
		"no time":      {[]string{"-node=n1", "-namespace=dcm", "-drain=-1s"}, "-drain: out of range (found -1s, want more than 0)"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := parse(tt.args, none, t.Output()); err == nil || err.Error() != tt.want {
				t.Errorf("error is %v, want %s", err, tt.want)
			}
		})
	}
}
