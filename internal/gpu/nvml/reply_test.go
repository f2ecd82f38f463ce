package nvml

import (
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/gpu/partition"
)

func TestReply_PlannerInput(t *testing.T) {
	g := GPU{
		MIG: &MIGMode{Current: true, Pending: true},
		Profiles: []Profile{
			{Name: "3g.40gb", ID: 9, Max: 2, Places: []Placement{{4, 4}, {0, 4}}},
			{Name: "1g.10gb", ID: 19, Max: 7},
		},
		Instances: []Instance{
			{ID: 1, Profile: "3g.40gb", Place: Placement{4, 4}, Compute: []ComputeInstance{{Profile: "1c.3g.40gb"}, {Profile: "1c.3g.40gb"}}},
			{ID: 2, Profile: "3g.40gb", Place: Placement{0, 4}, Compute: []ComputeInstance{{Profile: "3g.40gb"}}},
		},
	}
	if diff := cmp.Diff([]partition.InstanceProfile{{Name: "3g.40gb", ID: 9, InstanceCount: 2, Size: 4, Starts: []int{0, 4}}}, g.Offers()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want := &partition.MIG{Instances: []partition.Instance{
		{Profile: "3g.40gb", Start: 0}, {Profile: "3g.40gb", Start: 4, Compute: []string{"1c.3g.40gb", "1c.3g.40gb"}},
	}}
	m, whole := g.Geometry()
	if diff := cmp.Diff(want, m); diff != "" || !whole {
		t.Errorf("whole %t (-want +got):\n%s", whole, diff)
	}
	g.Instances[1].Compute = nil
	if _, whole := g.Geometry(); whole {
		t.Error("an instance without compute instances counts")
	}
	g.MIG.Current = false
	if m, _ := g.Geometry(); m != nil {
		t.Errorf("%v with MIG off", m)
	}
}

// FuzzReply: whatever dcm-nvml prints is an error or an answer, of text that can be shown.
func FuzzReply(f *testing.F) {
	for _, s := range []string{
		`{"library":"/l","driver":"580","gpus":[{"address":"0000:41:00.0","name":"n","minor":0,"mig":{"current":true},"profiles":[{"name":"3g.40gb","places":[{"start":0,"size":4}]}],"instances":[{"compute":[{}]}]}]}`,
		`{"error":{"kind":"in-use","text":"t\u001b[2J","status":19}}`, `{"gpus":[null]}`, `null`, `[]`, "\xff", `{"missing":["\u202e"]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, out []byte) {
		reply, err := ParseReply(out)
		if err != nil {
			return
		}
		texts := append([]string{reply.Library, reply.Driver, reply.NVML}, reply.Missing...)
		if reply.Error != nil {
			texts = append(texts, reply.Error.Error(), string(reply.Error.Kind))
		}
		for _, g := range reply.GPUs {
			texts = append(append(texts, string(g.Address), g.UUID, g.Name, g.Virtualization), g.Notes...)
			for _, s := range g.Offers() {
				texts = append(texts, s.Name)
			}
			if m, _ := g.Geometry(); m != nil {
				texts = append(texts, m.String())
			}
		}
		for _, text := range texts {
			for _, r := range strings.ReplaceAll(text, "\n", "") {
				if !unicode.IsPrint(r) {
					t.Fatalf("got %q", text)
				}
			}
		}
	})
}
