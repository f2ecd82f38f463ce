package amdsmi

import (
	"strings"
	"testing"
)

func TestRequest_Invalid(t *testing.T) {
	for _, c := range []struct{ name, request, want string }{
		{"empty", ``, "not a request"},
		{"not JSON", `set CPX`, "not a request"},
		{"two", `{"do":"version"}{"do":"version"}`, "text follows"},
		{"unknown key", `{"do":"version","force":true}`, "force"},
		{"unknown request", `{"do":"reset"}`, "accepted are version, inventory, set-compute, set-memory"},
		{"nothing to do", `{}`, "unknown request"},
		{"a mode where none belongs", `{"do":"inventory","mode":"CPX"}`, "neither gpu nor mode"},
		{"unknown mode", `{"do":"set-compute","gpu":"0000:05:00.0","mode":"XPX"}`, `"XPX"`},
		{"lower case mode", `{"do":"set-compute","gpu":"0000:05:00.0","mode":"cpx"}`, `"cpx"`},
		{"a number for a mode", `{"do":"set-compute","gpu":"0000:05:00.0","mode":"5"}`, `"5"`},
		{"memory mode for compute", `{"do":"set-compute","gpu":"0000:05:00.0","mode":"NPS4"}`, `"NPS4"`},
		{"compute mode for memory", `{"do":"set-memory","gpu":"0000:05:00.0","mode":"CPX"}`, `"CPX"`},
		{"no GPU", `{"do":"set-compute","mode":"CPX"}`, "PCI address"},
		{"an index", `{"do":"set-compute","gpu":"0","mode":"CPX"}`, "PCI address"},
		{"an address without its domain", `{"do":"set-compute","gpu":"05:00.0","mode":"CPX"}`, "PCI address"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseRequest([]byte(c.request))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
			if f := failure(err); f == nil || f.Kind != BadRequest {
				t.Errorf("failure %+v, want kind %s", f, BadRequest)
			}
		})
	}
}

func TestDecodeBDF(t *testing.T) {
	for _, c := range []struct {
		bdf  uint64
		want string
		ok   bool
	}{
		{0x0500, "0000:05:00.0", true},
		{0xe500, "0000:e5:00.0", true},
		{0x1_0000<<16 | 0xc6fd, "10000:c6:1f.5", true},
		{0, "", false},
		{0xffffffffffffffff, "", false},
		{0x7ffc_1234_5678_9abc, "", false},
	} {
		got, err := decodeBDF(c.bdf)
		if string(got) != c.want || (err == nil) != c.ok {
			t.Errorf("decodeBDF(%#x) = %q, %v; want %q", c.bdf, got, err, c.want)
		}
	}
}
