package amdgpu

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/gpu/partition"
)

func TestParseProperties_NotANumber(t *testing.T) {
	for text, want := range map[string]string{
		"domain x\n":                   `property domain is "x", not a number`,
		"location_id -1":               `property location_id is "-1", not a number`,
		"num_xcc 4294967296":           `property num_xcc is "4294967296", not a number`,
		"hive_id 18446744073709551616": `property hive_id is "18446744073709551616", not a number`,
		"drm_render_minor":             `property drm_render_minor is "", not a number`,
	} {
		if _, err := parseProperties(text); err == nil || err.Error() != want {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}

func FuzzParseModes(f *testing.F) {
	for _, text := range []string{"SPX, DPX, CPX\n", "Not supported\n", "NPS1,NPS4", "", ",", "SPX,,", "\x00"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		check(t, text, partition.ParseCompute, partition.ComputeModes())
		check(t, text, partition.ParseMemory, partition.MemoryModes())
	})
}

// check fails unless a list either parses to known modes, and parses to the same ones after
// formatting, or returns an error that names the unknown mode.
func check[M ~string](t *testing.T, text string, parse func(string) (M, error), known []M) {
	modes, err := parseModes("file", text, parse)
	if err != nil {
		unknown, ok := errors.AsType[*ModeError](err)
		if !ok || unknown.File != "file" || !strings.Contains(text, unknown.Value) || slices.Contains(known, M(unknown.Value)) {
			t.Errorf("%q: error %v", text, err)
		}
		return
	}
	again, err := parseModes("file", partition.List(modes), parse)
	if d := cmp.Diff(modes, again); d != "" || err != nil {
		t.Errorf("%q, formatted and parsed again: %v (-want +got):\n%s", text, err, d)
	}
}

func FuzzProperties(f *testing.F) {
	f.Add("cpu_cores_count 0\nlocation_id 3072\ndomain 0\ndrm_render_minor 128\nhive_id 8437823954852\nunique_id 77\nnum_xcc 8\n")
	f.Add("drm_render_minor -1\nunique_id 00ab\n\nlocation_id\n")
	f.Fuzz(func(t *testing.T, text string) {
		node, err := parseProperties(text)
		if err != nil {
			return
		}
		if _, err := partition.ParseAddress(string(node.address())); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	})
}

// HIP and rocminfo show the id in hexadecimal.
func TestUUID(t *testing.T) {
	for unique, want := range map[string]string{"6840431229442412481": "GPU-5eee17f605674fc1", "77": "GPU-000000000000004d", "0": "", "": "", "00ab": ""} {
		if got := (kfdNode{unique: unique}).uuid(); got != want {
			t.Errorf("%s: %q, want %q", unique, got, want)
		}
	}
}
