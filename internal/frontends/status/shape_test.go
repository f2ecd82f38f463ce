package status

import "testing"

func TestShape_Settings(t *testing.T) {
	for _, test := range []struct {
		shape Shape
		want  string
	}{
		{Shape{}, ""},
		{Shape{Allocation: "capping", Isolation: "off"}, ""},
		{Shape{Allocation: "all", Isolation: "on"}, " (memory all) (isolated)"},
		{Shape{Isolation: "0 1"}, " (isolation 0 1)"},
	} {
		test.shape.Compute = "CPX"
		if got := test.shape.String(); got != "CPX"+test.want {
			t.Errorf("%+v: %q, want %q", test.shape, got, "CPX"+test.want)
		}
	}
}
