package made

import "testing"

func TestName_RoundTrip(t *testing.T) {
	for _, n := range []Name{
		{"dcm-lease-1000-4f1c09aa.scope", gpu, "3g.40gb", 4},
		{"dcm-exclusive-0-00000001.scope", "00010:ff:1f.7", "1g.10gb+me.all", 6},
		{"dcm-lease-4294967295-ffffffff.scope", gpu, "1g.24gb-me", 0},
		{"vllm.service", gpu, "2g.20gb", 4},
		{`a_b\x2dc@d_0.service`, gpu, "1g.10gb+me.all", 0},
	} {
		if got, err := Parse(n.String()); got != n || err != nil {
			t.Errorf("%s: %+v, %v", n, got, err)
		}
	}
	for _, text := range []string{"", "lease-1000-4f1c09aa", "lease-1000-4f1c09aa_0000:41:00.0_1c.3g.40gb_4", "lease-1000-4f1c09aa_0000:41:00.0_3g.40gb_04", "x_0000:41:00.0_3g.40gb_4", "lease-1000-4f1c09aa_41:00.0_3g.40gb_4", "lease-1000-4f1c09aa_0000:41:00.0_3g.40gb_4_5", "vllm.socket_0000:41:00.0_3g.40gb_4", "a/b.service_0000:41:00.0_3g.40gb_4", ".service_0000:41:00.0_3g.40gb_4"} {
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
	for _, text := range []string{"", "vllm.service", "2g.20gb", "2g.20gb_vllm.socket", "1c.2g.20gb_vllm.service", "2g.20gb_", "2g.20gb_a/b.service", "lease-1000-4f1c09aa_0000:41:00.0_3g.40gb_4"} {
		if s, err := ParseService(text); err == nil {
			t.Errorf("%q is %+v", text, s)
		}
	}
	if got, want := (Name{"vllm@a.service", gpu, "2g.20gb", 4}).Unit(), "dcm-make@2g.20gb_vllm@a.service.service"; got != want {
		t.Errorf("unit: %s, want %s", got, want)
	}
}
