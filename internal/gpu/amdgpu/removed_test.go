package amdgpu

import "testing"

func TestIsAmdgpuFile(t *testing.T) {
	for _, tt := range []struct {
		fdinfo string
		want   bool
	}{
		{"pos:\t0\nflags:\t02\ndrm-driver:\tamdgpu\ndrm-client-id:\t4", true},
		{"pos:\t0\ndrm-driver:\tast", false},
		{"pos:\t0\nflags:\t02", true}, // a kernel before 5.19
		{"", true},
	} {
		if got := isAmdgpuFile(tt.fdinfo); got != tt.want {
			t.Errorf("fdinfo %q: found %t, want %t", tt.fdinfo, got, tt.want)
		}
	}
	if got := removedNodeName(1) + removedNodeName(136); got != "/dev/dri/card1 (removed)/dev/dri/renderD136 (removed)" {
		t.Errorf("names %q", got)
	}
}
