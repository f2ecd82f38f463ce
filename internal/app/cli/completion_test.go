package cli

import (
	"slices"
	"strings"
	"testing"
)

func TestNodeKinds_Described(t *testing.T) {
	kinds := nodeKinds()
	if !slices.Contains(kinds, "mi300x-8\t8 GPUs of AMD") || !slices.Contains(kinds, "h100-8\t8 GPUs of NVIDIA") {
		t.Errorf("kinds:\n%s", strings.Join(kinds, "\n"))
	}
}
