package made

import (
	"testing"

	"dcm/internal/gpu/partition"
)

func TestName_RoundTrip(t *testing.T) {
	for _, n := range []Name{
		{Lease: "dcm-lease-1000-4f1c09aa.scope", GPU: gpu, Profile: "3g.40gb", Start: 4},
		{Lease: "dcm-exclusive-0-00000001.scope", GPU: "00010:ff:1f.7", Profile: "1g.10gb+me.all", Start: 6},
		{Lease: "dcm-lease-4294967295-ffffffff.scope", GPU: gpu, Profile: "1g.24gb-me", Start: 0},
		{Lease: "vllm.service", GPU: gpu, Profile: "2g.20gb", Start: 4},
		{Lease: `a_b\x2dc@d_0.service`, GPU: gpu, Profile: "1g.10gb+me.all", Start: 0},
		{Lease: "mode_a.service", GPU: gpu, Profile: "2g.20gb", Start: 4},
		{GPU: gpu, Profile: "CPX", Rest: partition.SPX},
	} {
		if got, err := Parse(n.String()); got != n || err != nil {
			t.Errorf("%s: %+v, %v", n, got, err)
		}
	}
	for _, text := range []string{"", "lease-1000-4f1c09aa", "lease-1000-4f1c09aa_0000:41:00.0_1c.3g.40gb_4", "lease-1000-4f1c09aa_0000:41:00.0_3g.40gb_04", "x_0000:41:00.0_3g.40gb_4", "lease-1000-4f1c09aa_41:00.0_3g.40gb_4", "lease-1000-4f1c09aa_0000:41:00.0_3g.40gb_4_5", "vllm.socket_0000:41:00.0_3g.40gb_4", "a/b.service_0000:41:00.0_3g.40gb_4", ".service_0000:41:00.0_3g.40gb_4",
		"mode_0000:41:00.0_CPX", "mode_41:00.0_CPX_SPX", "mode_0000:41:00.0_CPX_ZPX", "mode_0000:41:00.0_3g.40gb_SPX"} {
		if n, err := Parse(text); err == nil {
			t.Errorf("%q is %+v", text, n)
		}
	}
}

func TestService_RoundTrip(t *testing.T) {
	for text, want := range map[string]Service{
		"2g.20gb_vllm.service":                {"vllm.service", "2g.20gb"},
		`1g.10gb:me.all_a_b\x2dc@d_0.service`: {`a_b\x2dc@d_0.service`, "1g.10gb+me.all"},
	} {
		if got, err := ParseService(text); got != want || err != nil || got.String() != text {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "vllm.service", "2g.20gb", "2g.20gb_vllm.socket", "1c.2g.20gb_vllm.service", "2g.20gb_", "2g.20gb_a/b.service", "lease-1000-4f1c09aa_0000:41:00.0_3g.40gb_4", "mode_0000:41:00.0_CPX_SPX", "CPX_vllm.service"} {
		if s, err := ParseService(text); err == nil {
			t.Errorf("%q is %+v", text, s)
		}
	}
	if got, want := (Name{Lease: "vllm@a.service", GPU: gpu, Profile: "2g.20gb", Start: 4}).Unit(), "dcm-make@2g.20gb_vllm@a.service.service"; got != want {
		t.Errorf("unit: %s, want %s", got, want)
	}
}
