package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPicture(t *testing.T) {
	before := []gpu{{"0000:05:00.0", "SPX", "NPS1"}, {"0000:26:00.0", "QPX", "NPS1"}}
	after := []gpu{{"0000:05:00.0", "CPX", "NPS4"}, {"0000:26:00.0", "DPX", "NPS2"}}
	want := `              before                                  after
0000:05:00.0  [                       ]  SPX/NPS1     [  :  |  :  |  :  |  :  ]  CPX/NPS4
0000:26:00.0  [     :     :     :     ]  QPX/NPS1     [           |           ]  DPX/NPS2

: between two partitions, | also between two memory domains
`
	if diff := cmp.Diff(want, picture(before, after)); diff != "" {
		t.Errorf("picture (-want +got):\n%s", diff)
	}
}
