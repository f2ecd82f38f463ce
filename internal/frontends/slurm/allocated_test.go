package slurm

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestController_Allocated: slurmctld's numbers follow the order of the types in Gres=.
func TestController_Allocated(t *testing.T) {
	g := Gres{Devices: []Device{{Type: "cpx", Part: "a-0"}, {Type: "s.x", Part: "b-0"}, {Type: "cpx", Part: "c-0"}}}
	all := []string{"a-0", "b-0", "c-0"}
	for _, tt := range []struct {
		name, record string
		want         []string
		mapped       bool
	}{
		{"no job", "Gres=gpu:cpx:2,gpu:s.x:1 GresUsed=gpu:cpx:0(IDX:N/A),gpu:s.x:0(IDX:N/A)", nil, true},
		{"types that alternate", "Gres=gpu:cpx:2,gpu:s.x:1 GresUsed=gpu:cpx:1(IDX:1),gpu:s.x:0(IDX:N/A)", []string{"c-0"}, true},
		{"the other order of types", "Gres=gpu:s.x:1(S:0),gpu:cpx:2(S:0-1) GresUsed=gpu:s.x:1(IDX:0),gpu:cpx:1(IDX:1)", []string{"b-0", "a-0"}, true},
		{"a list of numbers", "Gres=gpu:cpx:2,gpu:s.x:1 GresUsed=gpu:cpx:2(IDX:0,2)", []string{"a-0", "b-0"}, true},
		{"a range", "Gres=gpu:cpx:2,gpu:s.x:1 GresUsed=craynetwork:1,gpu:cpx:2(IDX:0-1)", []string{"a-0", "c-0"}, true},
		{"other counts", "Gres=gpu:cpx:4 GresUsed=gpu:cpx:1(IDX:0)", all, false},
		{"a number that no device has", "Gres=gpu:cpx:2,gpu:s.x:1 GresUsed=gpu:cpx:1(IDX:7)", all, false},
		{"plain types", "Gres=gpu:cpx:2,gpu:s_x:1 GresUsed=gpu:s_x:1(IDX:2)", []string{"b-0"}, true},
		{"no GPU", "Gres=(null) GresUsed=gpu:0", nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := Controller{NodeName: "gpu1", Run: func(context.Context, ...string) (string, error) {
				return "NodeName=gpu1 Arch=x86_64 " + tt.record + " NodeAddr=gpu1 State=MIXED", nil
			}}
			used, mapped, err := c.Allocated(t.Context(), g)
			var got []string
			for _, d := range used {
				got = append(got, d.Part)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || mapped != tt.mapped || err != nil {
				t.Errorf("mapped %t, %v, allocated (-want +got):\n%s", mapped, err, diff)
			}
		})
	}
	c := Controller{NodeName: "gpu1", Run: func(context.Context, ...string) (string, error) { return "", errors.New("no answer") }}
	if _, _, err := c.Allocated(t.Context(), g); err == nil {
		t.Error("slurmctld without an answer: no error")
	}
}
