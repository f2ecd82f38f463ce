package main

import (
	"fmt"
	"strings"
	"testing"

	"dcm/internal/gpu/nvml"
	"dcm/internal/gpu/nvml/standin"
)

// Compute instance profiles are read up to the last one that the library knows, which may
// be one that this dcm does not: of seven slices there is another one at index 8.
func TestProfiles_ComputeOfNewerLibraries(t *testing.T) {
	for _, index := range []int{8, 9} {
		t.Run(fmt.Sprint("index ", index), func(t *testing.T) {
			m := node(t, "A100-80GB")
			m.turn(fmt.Sprint("compute-nvl ", index))
			m.mode(true)
			m.want(m.fill("7g.80gb@0"), "on 7g.80gb@0")
			reply := m.look(first)
			m.want(reply, "on 7g.80gb@0")
			if c := reply.GPUs[0].Instances[0].Compute; len(c) != 1 || c[0].ProfID != index || c[0].Slices != 7 {
				t.Errorf("compute instances %+v", c)
			}
			m.want(m.clear(), "on")
		})
	}
}

// GPU instance profiles are read in the same way.
func TestProfiles_NewerLibraries(t *testing.T) {
	m := node(t, "A100-80GB")
	m.update(func(s *standin.State) {
		for i, p := range s.GPUs[0].Profiles {
			if p.Name == "3g.40gb" {
				s.GPUs[0].Profiles[i].Index = 0x15
			}
		}
	})
	m.mode(true)
	m.want(m.fill("3g.40gb@4"), "on 3g.40gb@4")
	m.want(m.clear(), "on")
}

// An older library returns another status for the indices that it does not know, below the
// last one that this dcm knows.
func TestProfiles_OlderLibraries(t *testing.T) {
	m := node(t, "RTX-PRO-6000")
	m.turn("profile-count 11")
	if g := m.look(first).GPUs[0]; g.Error != nil || g.Notes != nil || len(g.Profiles) != 11 {
		t.Errorf("%d profiles: %+v", len(g.Profiles), g)
	}
}

// A compute instance that is not listed makes its GPU instance look unused.
func TestProfiles_UnlistedComputeInstance(t *testing.T) {
	m := node(t, "A100-80GB")
	m.mode(true)
	m.fill("7g.80gb@0")
	m.turn("fail nvmlGpuInstanceGetComputeInstanceProfileInfoV 3")
	if g := m.look(first).GPUs[0]; g.Error == nil || g.Error.Kind != nvml.Garbage || !strings.Contains(g.Error.Text, "is compute instance 0 of instance 0, which is not listed") {
		t.Errorf("%+v", g.Error)
	}
	if reply := m.clear(); reply.Error == nil {
		t.Error("cleared")
	}
}

// unknown gives a profile of the second size a name that dcm cannot parse.
func unknown(m machine) {
	m.update(func(s *standin.State) {
		for g := range s.GPUs {
			for i, p := range s.GPUs[g].Profiles {
				if p.Name == "2g.48gb+gfx" {
					s.GPUs[g].Profiles[i].Name = "2g.48gb+gfx.me"
				}
			}
		}
	})
}

// A profile with a name that cannot be parsed is noted, and the others can be used.
func TestProfiles_InvalidName(t *testing.T) {
	const why = `profile 11: "2g.48gb+gfx.me" is not a name of a GPU instance profile`
	m := node(t, "RTX-PRO-6000")
	unknown(m)
	m.mode(true)
	reply := m.look(first)
	m.want(reply, "on")
	if notes := strings.Join(reply.GPUs[0].Notes, "\n"); !strings.Contains(notes, why) || len(reply.GPUs[0].Offers()) != 10 {
		t.Errorf("%d offers, notes %q", len(reply.GPUs[0].Offers()), notes)
	}
	m.want(m.fill("2g.48gb@0", "1g.24gb@2"), "on 2g.48gb@0 1g.24gb@2")
	m.want(m.clear(), "on")
	// An instance of it would be taken for free slots.
	m.update(func(s *standin.State) {
		s.GPUs[0].Instances = []standin.Instance{{ID: 1, Profile: "2g.48gb+gfx.me", Compute: []standin.Compute{{Slices: 2}}}}
	})
	if g := m.look(first).GPUs[0]; g.Error == nil || g.Error.Kind != nvml.Garbage || !strings.Contains(g.Error.Text, why) {
		t.Errorf("with an instance of it: %+v", g.Error)
	}
	m.wantError(m.clear(), nvml.Garbage, why)
	m.wantError(m.fill("1g.24gb@2"), nvml.Garbage, why)
}

// The names of profiles that the driver does not report with MIG off are computed, with
// what their index says.
func TestComputedNames(t *testing.T) {
	m := node(t, "RTX-PRO-6000")
	m.turn("names-with-mig")
	m.update(func(s *standin.State) {
		g := &s.GPUs[0]
		g.Profiles = append(g.Profiles, standin.Profile{Index: 0x11, ID: 99, Slices: 3, Memory: 72 << 10, Max: 1, Size: 3, Starts: []int{0}, Name: "3g.72gb+gfx"})
	})
	g := m.look(first).GPUs[0]
	for _, p := range g.Profiles {
		if !p.Computed {
			t.Errorf("%s is not computed", p.Name)
		}
	}
	if last := g.Profiles[len(g.Profiles)-1]; g.Error != nil || last.Name != "3g.72gb+gfx" {
		t.Errorf("%+v, %+v", last, g.Error)
	}
}

// An A30 has one JPEG and one OFA engine, which one instance with media engines takes.
func TestProfiles_MediaEnginesOfA30(t *testing.T) {
	m := node(t, "A30")
	m.mode(true)
	m.wantError(m.fill("2g.12gb+me@0", "1g.6gb+me@2"), nvml.NoResources, "1g.6gb+me at slot 2")
	m.clear()
	m.want(m.fill("2g.12gb+me@0", "1g.6gb@2", "1g.6gb@3"), "on 2g.12gb+me@0 1g.6gb@2 1g.6gb@3")
}
