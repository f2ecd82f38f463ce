package leases

import (
	"context"
	"slices"
	"strings"
	"testing"

	"dcm/internal/engine/runstate"
	"dcm/internal/linux/cdi"
)

// fakeSpecifications are those of a test, before and after the wait for NVIDIA's service.
type fakeSpecifications struct {
	before, after string // names without the kinds: "MIG-…" is NVIDIA's
	why           string
	waited        int
}

func (f *fakeSpecifications) Names() cdi.Names {
	out := make(cdi.Names)
	list := f.before
	if f.waited > 0 {
		list = f.after
	}
	for _, name := range strings.Fields(list) {
		kind := cdi.Kind
		if strings.Contains(name, "PU-") || strings.HasPrefix(name, "MIG-") {
			kind = cdi.NVIDIAKind
		}
		out[kind+"="+name] = []string{"file"}
	}
	return out
}

func (f *fakeSpecifications) Refreshed(context.Context) string {
	f.waited++
	return f.why
}

// A lease gets only names that a specification has.
func TestContainerDevices(t *testing.T) {
	parts := []runstate.Part{
		{Name: "05-0", Kind: "amd CPX/NPS1", UUID: "a"},
		{Name: "1b-4", Kind: "nvidia 1g.10gb", UUID: "MIG-4"},
		{Name: "43-0", Kind: "nvidia full", UUID: "GPU-43"},
	}
	const ran, failed = "it has not written them", "it has failed"
	for _, tt := range []struct {
		name, partitions string
		specs            fakeSpecifications
		want             string
		note             string // part of the note; "" for no note
		waits            bool
	}{
		{"AMD", "05-0", fakeSpecifications{before: "05-0 all"}, "deviceconfig.org/partition=05-0", "", false},
		{"without NVIDIA's service", "1b-4", fakeSpecifications{before: "1b-4"}, "deviceconfig.org/partition=1b-4", "", true},
		{"NVIDIA's specification", "1b-4 43-0", fakeSpecifications{before: "1b-4 43-0 MIG-4 GPU-43", why: ran}, "nvidia.com/gpu=MIG-4 nvidia.com/gpu=GPU-43", "", false},
		{"NVIDIA's specification is written late", "1b-4", fakeSpecifications{before: "1b-4 GPU-43", after: "1b-4 MIG-4", why: ran}, "nvidia.com/gpu=MIG-4", "", true},
		{"NVIDIA's service does nothing", "1b-4", fakeSpecifications{before: "1b-4", after: "1b-4", why: ran}, "deviceconfig.org/partition=1b-4", "device nodes of 1b-4 without NVIDIA's libraries: it has not written them", true},
		{"NVIDIA's service has failed", "1b-4 43-0", fakeSpecifications{before: "1b-4 43-0 GPU-43", after: "1b-4 43-0 GPU-43", why: failed},
			"deviceconfig.org/partition=1b-4 nvidia.com/gpu=GPU-43", "device nodes of 1b-4 without NVIDIA's libraries: it has failed", true},
		{"both vendors", "05-0 1b-4", fakeSpecifications{before: "05-0 1b-4 MIG-4", why: ran}, "deviceconfig.org/partition=05-0 nvidia.com/gpu=MIG-4", "", false},
		{"no specification", "05-0", fakeSpecifications{}, "", "no CDI specification has 05-0", false},
		{"an unknown partition", "99-0", fakeSpecifications{before: "05-0"}, "", "no CDI specification has 99-0", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, note := containerDevices(t.Context(), &tt.specs, strings.Fields(tt.partitions), parts)
			if !slices.Equal(got, strings.Fields(tt.want)) {
				t.Errorf("names: got %q, want %q", got, tt.want)
			}
			if !strings.Contains(note, tt.note) || (note == "") != (tt.note == "") {
				t.Errorf("note: got %q, want %q", note, tt.note)
			}
			if waited := tt.specs.waited > 0; waited != tt.waits {
				t.Errorf("waited: got %t, want %t", waited, tt.waits)
			}
		})
	}
}
