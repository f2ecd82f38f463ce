package systemd

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestConfinement_Differs(t *testing.T) {
	alpha := Reserved{Unit: "alpha.service", Name: "alpha", Count: 2}.Confinement("alpha.service")
	own := Reserved{Unit: "ml.service", Name: "ml", Count: 1, Slice: Setting{Value: "dcm-ml.slice"}}.Confinement("ml.service")
	mig := Reserved{Unit: "mig.service", Name: "mig", Count: 1, CompanionLinks: 1}.Confinement("mig.service")
	list := []string{"/dev/kfd", "/dev/dcm/alpha/render0", "/dev/dcm/alpha/render1"}
	in := func(policy, slice string, allow ...string) Confined {
		return Confined{Active: "active", Policy: policy, Slice: slice, Allow: allow}
	}
	for _, tt := range []struct {
		name string
		want Confinement
		have Confined
		diff []string
	}{
		{"as written", alpha, in("closed", "dcm-alpha.slice", list...), nil},
		{"its own slice below dcm.slice", own, in("closed", "dcm-ml.slice", "/dev/kfd", "/dev/dcm/ml/render0"), nil},
		{"companion nodes of MIG devices", mig, in("closed", "dcm-mig.slice", "/dev/kfd", "/dev/dcm/mig/render0", "/dev/dcm/mig.beside/render0"), nil},
		{"a larger reservation, before the restart", alpha, in("closed", "dcm-alpha.slice", append(list, "/dev/dcm/alpha/render2")...), nil},
		{"a smaller reservation, before the restart", alpha, in("closed", "dcm-alpha.slice", list[:2]...), nil},
		{"devices that belong to no GPU", alpha, in("closed", "dcm-alpha.slice", append(list, "/dev/fuse", "char-rtc", "/dev/net/tun", "block-loop")...), nil},
		{"a stricter policy", alpha, in("strict", "dcm-alpha.slice", list...), nil},
		{"without its drop-in", alpha, in("auto", "system.slice"), []string{"Slice=system.slice, want dcm-alpha.slice", "DevicePolicy=auto, want closed"}},
		{"without its drop-in, with its own list", alpha, in("auto", "dcm-alpha.slice", "/dev/dri/renderD128"), []string{"DevicePolicy=auto, want closed"}},
		{"another slice", alpha, in("closed", "ml.slice", list...), []string{"Slice=ml.slice, want dcm-alpha.slice"}},
		{"a node of a GPU", alpha, in("closed", "dcm-alpha.slice", append(list, "/dev/dri/renderD191")...), []string{"DeviceAllow=/dev/dri/renderD191, which is not reserved for it"}},
		{"another's link", alpha, in("closed", "dcm-alpha.slice", append(list, "/dev/dcm/beta/render0")...), []string{"DeviceAllow=/dev/dcm/beta/render0, which is not reserved for it"}},
		{"a link of another reservation with the same prefix", alpha, in("closed", "dcm-alpha.slice", append(list, "/dev/dcm/alpha-2/render0")...), []string{"DeviceAllow=/dev/dcm/alpha-2/render0, which is not reserved for it"}},
		{"a driver", alpha, in("closed", "dcm-alpha.slice", append(list, "char-drm")...), []string{"DeviceAllow=char-drm, which is not reserved for it"}},
		{"a pattern of drivers", alpha, in("closed", "dcm-alpha.slice", append(list, "char-*")...), []string{"DeviceAllow=char-*, which is not reserved for it"}},
		{"a pattern that is malformed", alpha, in("closed", "dcm-alpha.slice", append(list, "char-[")...), []string{"DeviceAllow=char-[, which is not reserved for it"}},
		{"a number", alpha, in("closed", "dcm-alpha.slice", append(list, "/dev/char/226:191")...), []string{"DeviceAllow=/dev/char/226:191, which is not reserved for it"}},
		{"NVIDIA's nodes", alpha, in("closed", "dcm-alpha.slice", append(list, "/dev/nvidia0")...), []string{"DeviceAllow=/dev/nvidia0, which is not reserved for it"}},
		{"a list that was reset", alpha, in("closed", "dcm-alpha.slice"), []string{"DeviceAllow= names none of its partitions"}},
		{"a lease", LeaseConfinement(), in("closed", "dcm.slice", "/dev/kfd", "/dev/dri/renderD130"), nil},
		{"a lease without a policy", LeaseConfinement(), in("auto", "dcm.slice", "/dev/kfd"), []string{"DevicePolicy=auto, want closed"}},
		{"a lease with a driver", LeaseConfinement(), in("closed", "dcm.slice", "/dev/kfd", "char-drm"), []string{"DeviceAllow=char-drm, which is not reserved for it"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.diff, tt.want.Differs(tt.have)); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConfinement_Misplaced(t *testing.T) {
	alpha := Reserved{Unit: "alpha.service", Name: "alpha", Count: 2}.Confinement("alpha.service")
	for _, tt := range []struct {
		active, cgroup, want string
		outside              bool
	}{
		{"active", "/dcm.slice/dcm-alpha.slice/alpha.service", "", false},
		{"active", "/dcm.slice/dcm-alpha.slice/dcm-alpha-x.slice/alpha.service", "", false},
		{"active", "/dcm.slice/alpha.service", "its processes run in /dcm.slice/alpha.service, want dcm-alpha.slice", false},
		{"active", "/system.slice/alpha.service", "its processes run in /system.slice/alpha.service, want dcm-alpha.slice", true},
		{"deactivating", "/system.slice/alpha.service", "its processes run in /system.slice/alpha.service, want dcm-alpha.slice", true},
		{"inactive", "/system.slice/alpha.service", "", false},
		{"active", "", "", false}, // no cgroup, for example a oneshot with RemainAfterExit=
	} {
		u := Confined{Unit: "alpha.service", Active: tt.active, Cgroup: tt.cgroup}
		if got := alpha.Misplaced(u); got != tt.want || u.Outside() != tt.outside {
			t.Errorf("%s in %q: %q, outside %t, want %q, %t", tt.active, tt.cgroup, got, u.Outside(), tt.want, tt.outside)
		}
	}
}

func TestConfined_ReadsProperties(t *testing.T) {
	p := startPID1(t)
	p.set("alpha.service", "active/running", "0a")
	p.set("beta@1.service", "active/running*", "0a")
	p.set("beta@2.service", "inactive/dead", "")
	p.set("other.service", "active/running", "")
	for _, unit := range []string{"alpha.service", "beta@1.service"} {
		for name, value := range map[string]any{
			"Slice": "dcm-alpha.slice", "ControlGroup": "/dcm.slice/dcm-alpha.slice/" + unit, "DevicePolicy": "closed",
			"DeviceAllow": []permission{{"/dev/kfd", "rwm"}}, "InactiveExitTimestampMonotonic": uint64(7),
		} {
			p.property(unit, name, value)
		}
	}
	c, ctx := p.dial()
	got, err := c.Cgroups.Confined(ctx, []string{"alpha.service", "beta@.service", "gone.service"})
	if err != nil {
		t.Fatal(err)
	}
	want := func(unit string) Confined {
		return Confined{Unit: unit, Active: "active", Started: 7, Slice: "dcm-alpha.slice", Policy: "closed", Allow: []string{"/dev/kfd"},
			Cgroup: "/dcm.slice/dcm-alpha.slice/" + unit, Invocation: "0a", Job: unit != "alpha.service"}
	}
	if diff := cmp.Diff([]Confined{want("alpha.service"), want("beta@1.service"), {Unit: "beta@2.service", Active: "inactive"}}, got); diff != "" {
		t.Errorf("units (-want +got):\n%s", diff)
	}
}
