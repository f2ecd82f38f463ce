package unitname

import "testing"

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
