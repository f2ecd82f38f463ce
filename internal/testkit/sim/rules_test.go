package sim

import (
	"syscall"
	"testing"

	"dcm/internal/gpu/partition"
)

func TestRules_ComputeWrite(t *testing.T) {
	for _, test := range []struct {
		chip Chip
		now  partition.Memory
		text string
		want partition.Compute
		err  error
	}{
		{mi300x(), partition.NPS1, "SPX\n", partition.SPX, nil},
		{mi300x(), partition.NPS1, "CPX", partition.CPX, nil},
		{mi300x(), partition.NPS1, "cpx\n", partition.CPX, nil},
		{mi300x(), partition.NPS1, "TPX", "", syscall.EINVAL},
		{mi300x(), partition.NPS2, "DPX", partition.DPX, nil},
		{mi300x(), partition.NPS2, "CPX", "", syscall.EINVAL},
		{mi300x(), partition.NPS4, "QPX", partition.QPX, nil},
		{mi300x(), partition.NPS4, "SPX", "", syscall.EINVAL},
		{mi300x(), partition.NPS8, "CPX", "", syscall.EINVAL},
		{mi355x(), partition.NPS2, "CPX", partition.CPX, nil},
		{mi455x(), partition.NPS4, "CPX", partition.CPX, nil},
		{mi455x(), partition.NPS4, "DPX", "", syscall.EINVAL},
		{mi455x(), partition.NPS1, "TPX", "", syscall.EINVAL},
		{mi300a(), partition.NPS1, "TPX", partition.TPX, nil},
		{mi300a(), partition.NPS1, "DPX", "", syscall.EINVAL},
		{mi300x(), partition.NPS1, "", "", syscall.EINVAL},
		{mi300x(), partition.NPS1, "\n", "", syscall.EINVAL},
		{mi300x(), partition.NPS1, "2", "", syscall.EINVAL},
	} {
		got, err := parseCompute(test.chip, test.now, test.text)
		if got != test.want || err != test.err {
			t.Errorf("%s with %s, %q: got %q, %v, want %q, %v", test.chip.Product, test.now, test.text, got, err, test.want, test.err)
		}
	}
}

func TestRules_MemoryWrite(t *testing.T) {
	for _, test := range []struct {
		chip Chip
		text string
		want partition.Memory
		err  error
	}{
		{mi300x(), "NPS4\n", partition.NPS4, nil},
		{mi300x(), "NPS8", partition.NPS8, nil},
		{mi300x(), "NPS3", "", syscall.EINVAL},
		{mi300x(), "4", "", syscall.EINVAL},
		{mi355x(), "NPS8", "", syscall.EINVAL},
		{mi455x(), "NPS2", "", syscall.EINVAL},
		{mi300a(), "NPS1", "", syscall.EOPNOTSUPP},
		{mi300xVF(), "NPS4", "", syscall.EOPNOTSUPP},
	} {
		got, err := parseMemory(test.chip, test.text)
		if got != test.want || err != test.err {
			t.Errorf("%s, %q: got %q, %v, want %q, %v", test.chip.Product, test.text, got, err, test.want, test.err)
		}
	}
}

func TestRules_AvailableComputeModes(t *testing.T) {
	for now, want := range map[partition.Memory]string{
		partition.NPS1: "SPX, DPX, QPX, CPX",
		partition.NPS2: "DPX",
		partition.NPS4: "QPX, CPX",
		partition.NPS8: "Not supported",
	} {
		if got := available(mi300x(), now); got != want {
			t.Errorf("%s: got %q, want %q", now, got, want)
		}
	}
}

func TestRules_ModeAfterLoad(t *testing.T) {
	for _, test := range []struct {
		now    partition.Memory
		wanted partition.Compute
		want   partition.Compute
	}{
		{partition.NPS1, "", partition.SPX},
		{partition.NPS2, "", partition.DPX},
		{partition.NPS4, "", partition.CPX},
		{partition.NPS1, partition.CPX, partition.CPX},
		{partition.NPS4, partition.QPX, partition.QPX},
		{partition.NPS4, partition.SPX, partition.CPX},
	} {
		if got := modeAtLoad(mi300x(), test.now, test.wanted); got != test.want {
			t.Errorf("%s with parameter %q: got %s, want %s", test.now, test.wanted, got, test.want)
		}
	}
}
