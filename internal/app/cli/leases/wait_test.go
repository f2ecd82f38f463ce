package leases

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"dcm/internal/frontends/dbusapi"
)

func TestWait(t *testing.T) {
	for _, tt := range []struct {
		args  string
		wait  bool
		limit time.Duration
		err   string
	}{
		{"", false, 0, ""}, {"--wait", true, 0, ""}, {"--wait=true", true, 0, ""}, {"--wait=false", false, 0, ""},
		{"--wait=30m", true, 30 * time.Minute, ""}, {"--wait=30", false, 0, "no unit; did you mean 30s?"},
		{"--wait=0s", false, 0, "too short"}, {"--wait=-1s", false, 0, "too short"}, {"--wait=x", false, 0, "want a time such as"},
	} {
		var w dbusapi.Request
		f := pflag.NewFlagSet("run", pflag.ContinueOnError)
		addWait(f, &w)
		err := f.Parse(strings.Fields(tt.args))
		switch {
		case tt.err != "":
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: got %v, want %s", tt.args, err, tt.err)
			}
		case err != nil || w.Wait != tt.wait || w.WaitLimit != tt.limit:
			t.Errorf("%s: got %t, %s, %v; want %t, %s", tt.args, w.Wait, w.WaitLimit, err, tt.wait, tt.limit)
		}
		if help := f.FlagUsages(); strings.Contains(help, "[=") {
			t.Errorf("help: got %s, want no value in brackets", help)
		}
	}
}

func TestHintWait(t *testing.T) {
	missing := errors.New("missing")
	for _, tt := range []struct {
		request dbusapi.Request
		command string
		hint    bool
	}{
		{dbusapi.Request{Wait: true}, "30m", true}, {dbusapi.Request{Wait: true}, "make", false}, {dbusapi.Request{}, "30m", false},
		{dbusapi.Request{Wait: true, WaitLimit: time.Minute}, "30m", false},
	} {
		if got := strings.HasSuffix(hintWait(tt.request, tt.command, missing).Error(), "hint: write --wait=30m"); got != tt.hint {
			t.Errorf("%+v %s: got hint %t, want %t", tt.request, tt.command, got, tt.hint)
		}
	}
}
