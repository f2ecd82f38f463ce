package amdsmi

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/gpu/partition"
)

func symbols(names ...string) func(string) bool {
	return func(s string) bool { return slices.Contains(names, s) }
}

func TestNumbering(t *testing.T) {
	old := []uint32{2, 3, 4, 5, 1}
	renumbered := []uint32{1, 2, 3, 4, 5}
	counted, powers := []uint32{1, 2, 3, 4}, []uint32{1, 2, 4, 8}
	for _, c := range []struct {
		version         string
		symbols         []string
		compute, memory []uint32 // SPX DPX TPX QPX CPX; NPS1 NPS2 NPS4 NPS8
	}{
		{"23.4.0.0", nil, old, counted},
		{"24.5.0.0", nil, old, counted},
		{"24.5.2.0", nil, old, counted},
		{"24.6.2.0", nil, old, counted},
		{"24.6.3.0", nil, old, counted},
		{"24.7.0.0", []string{symKFDInfo}, renumbered, nil},
		{"24.7.1.0", []string{symKFDInfo}, renumbered, nil},
		{"25.3.0.0", []string{symKFDInfo, symMemoryMode}, renumbered, nil},
		{"26.0.0", []string{symKFDInfo, symMemoryMode}, renumbered, nil},
		{"26.1.0", []string{symKFDInfo, symMemoryMode}, renumbered, powers},
		{"26.5.0", []string{symKFDInfo, symMemoryMode}, renumbered, powers},
		{"27.1.0", []string{symKFDInfo, symMemoryMode}, renumbered, powers},
	} {
		t.Run(c.version, func(t *testing.T) {
			v, err := ParseVersion(c.version)
			if err != nil {
				t.Fatal(err)
			}
			n, err := numberingOf(v, symbols(c.symbols...))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.compute, computeNumbersOf(t, n, v)); diff != "" {
				t.Errorf("compute numbers (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.memory, memoryNumbersOf(n, v)); diff != "" {
				t.Errorf("memory numbers (-want +got):\n%s", diff)
			}
		})
	}
}

func computeNumbersOf(t *testing.T, n Numbering, v Version) []uint32 {
	t.Helper()
	var out []uint32
	for _, m := range partition.ComputeModes() {
		number, err := n.computeNumber(v, m)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, number)
	}
	return out
}

func memoryNumbersOf(n Numbering, v Version) []uint32 {
	var out []uint32
	for _, m := range partition.MemoryModes() {
		number, err := n.memoryNumber(v, m)
		if err != nil {
			return nil
		}
		out = append(out, number)
	}
	return out
}

func TestNumbering_Unknown(t *testing.T) {
	for _, c := range []struct {
		name, version string
		symbols       []string
		want          string // in the error
	}{
		{"older than known", "23.3.0.0", nil, "not known: known are 23.4.x"},
		{"between known ones", "24.4.0.0", nil, "not known"},
		{"next minor", "27.2.0", []string{symKFDInfo, symMemoryMode}, "24.7.1 to 26.0.x, 26.1.0 to 27.1.x"},
		{"next major", "28.0.0", []string{symKFDInfo, symMemoryMode}, "libamd_smi 28.0.0 are not known"},
		{"a year-less zero", "0.0.0", nil, "not known"},
		{"old version with new symbol", "24.5.2.0", []string{symKFDInfo}, "does not have amdsmi_get_gpu_kfd_info, but this library has"},
		{"old version with the memory symbol", "24.5.2.0", []string{symMemoryMode}, symMemoryMode},
		{"new version without its symbols", "27.1.0", nil, "has amdsmi_get_gpu_kfd_info, but this library does not have"},
		{"new version without the memory symbol", "27.1.0", []string{symKFDInfo}, symMemoryMode},
		{"24.7.0 without its symbol", "24.7.0.0", nil, symKFDInfo},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, err := ParseVersion(c.version)
			if err != nil {
				t.Fatal(err)
			}
			_, err = numberingOf(v, symbols(c.symbols...))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestNumbering_RowsDisjoint(t *testing.T) {
	rows := numberings()
	for i := 1; i < len(rows); i++ {
		if slices.Compare(rows[i-1].last[:], rows[i].first[:]) >= 0 {
			t.Errorf("row %s is not after row %s", rows[i].span(), rows[i-1].span())
		}
	}
}
