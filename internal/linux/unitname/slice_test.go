package unitname

import (
	"strings"
	"testing"
)

func TestHolderSlice_NotNested(t *testing.T) {
	for name, want := range map[string]string{
		"vllm":      "dcm-vllm.slice",
		"vllm-a":    "dcm-vllm:a.slice",
		"vllm_a.b":  "dcm-vllm_a.b.slice",
		"a--b":      "dcm-a::b.slice",
		"observers": "dcm-observers.slice",
	} {
		if got := HolderSlice(name); got != want {
			t.Errorf("HolderSlice(%q) = %s, want %s", name, got, want)
		}
	}
}

func TestValid(t *testing.T) {
	for name, want := range map[string]bool{
		"a.service": true, `a\x2db@.service`: true, "a@1:2.service": true, "-.slice": true, "a.b.timer": true,
		strings.Repeat("a", MaxLength-8) + ".service": true, strings.Repeat("a", MaxLength-7) + ".service": false,
		"": false, ".service": false, "@.service": false, "@1.service": false, "service": false, "a.device": false, "a.conf": false,
		"a/b.service": false, "a\n.service": false, "a*.service": false, "é.service": false,
	} {
		if got := Valid(name); got != want {
			t.Errorf("Valid(%q) = %t, want %t", name, got, want)
		}
	}
}

func TestOwn(t *testing.T) {
	for unit, want := range map[string]bool{
		"dcm.service": true, "dcm-make@.service": true, "dcm-make@dcm-lease-0-1_0000:61:00.0_3g.40gb_4.service": true,
		"dcm-make.service": false, "dcm@1.service": false, "a@dcm.service": false,
	} {
		if got := Own(unit); got != want {
			t.Errorf("Own(%s) = %t, want %t", unit, got, want)
		}
	}
}
