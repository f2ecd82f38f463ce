package leases

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
	"dcm/internal/frontends/dbusapi"
)

// A lease whose name was not written would stay without anybody who can end it.
func TestWriteHeld_Error(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	for _, asJSON := range []bool{false, true} {
		if err := writeHeld(console.Stdio(full, full), dbusapi.Lease{Unit: "a.scope"}, []string{"DCM_LEASE=a.scope"}, asJSON); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("JSON %t: no error of a write to a full disk", asJSON)
		}
	}
}

// An option without a default shows none.
func TestHelp_Defaults(t *testing.T) {
	h, con := &host.Host{}, &console.Console{}
	for _, text := range []string{RunCmd(h, con).Flags().FlagUsages(), HoldCmd(h, con).Flags().FlagUsages(), QueueCmd(h, con).Flags().FlagUsages()} {
		if strings.Contains(text, "default )") || strings.Contains(text, "[]") {
			t.Errorf("got an empty default in\n%s", text)
		}
	}
}

// A request in a lease that exists would have no effect.
func TestCheckEnter(t *testing.T) {
	for _, tt := range []struct {
		name    string
		set     string // the option that is given
		command []string
		want    string
	}{
		{"", "lease", []string{"true"}, "--lease: empty; want the name of a lease, such as DCM_LEASE of 'dcm lease hold'"},
		{"held", "lease", []string{"true"}, ""},
		{"held", "numa", []string{"true"}, ""},
		{"held", "lease", nil, "no command given (want dcm run --lease NAME -- COMMAND [ARGUMENT...])"},
		{"held", "gpu", []string{"true"}, "--lease cannot be combined with --gpu: the lease exists"},
		{"held", "wait", []string{"true"}, "--lease cannot be combined with --wait: the lease exists"},
		{"held", "json", []string{"true"}, "--lease cannot be combined with --json: the lease exists"},
	} {
		got := ""
		if err := checkEnter(tt.name, tt.command, func(option string) bool { return option == tt.set }); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%q --%s %v: got %q, want %q", tt.name, tt.set, tt.command, got, tt.want)
		}
	}
}
