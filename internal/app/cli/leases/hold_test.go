package leases

import (
	"testing"
)

// A request in a lease that exists would have no effect.
func TestCheckEnter(t *testing.T) {
	for _, tt := range []struct {
		set     string // the option that is given
		command []string
		want    string
	}{
		{"lease", []string{"true"}, ""},
		{"numa", []string{"true"}, ""},
		{"lease", nil, "no command given (want dcm run --lease NAME -- COMMAND [ARGUMENT...])"},
		{"gpu", []string{"true"}, "--lease cannot be combined with --gpu: the lease exists"},
		{"wait", []string{"true"}, "--lease cannot be combined with --wait: the lease exists"},
		{"json", []string{"true"}, "--lease cannot be combined with --json: the lease exists"},
	} {
		got := ""
		if err := checkEnter(tt.command, func(option string) bool { return option == tt.set }); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("--%s %v: got %q, want %q", tt.set, tt.command, got, tt.want)
		}
	}
}
