package modprobe

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dcm/internal/gpu/partition"
)

func TestMode(t *testing.T) {
	group := func(modes ...partition.Compute) (all []partition.Group) {
		for _, m := range modes {
			all = append(all, partition.Group{Compute: m})
		}
		return all
	}
	for name, tt := range map[string]struct {
		profile partition.Profile
		want    partition.Compute // "" for none
	}{
		"the whole node":       {partition.Profile{Compute: partition.CPX, Memory: partition.NPS4}, partition.CPX},
		"groups alike":         {partition.Profile{Groups: group(partition.DPX, partition.DPX)}, partition.DPX},
		"groups that differ":   {partition.Profile{Groups: group(partition.CPX, partition.SPX)}, ""},
		"the first differs":    {partition.Profile{Groups: group(partition.CPX, partition.SPX, partition.SPX)}, ""},
		"a GPU is skipped":     {partition.Profile{Compute: partition.CPX, Skip: []partition.Selector{{Index: 1}}}, ""},
		"the memory mode only": {partition.Profile{Memory: partition.NPS4}, ""},
	} {
		got, ok := Mode(tt.profile)
		if !ok {
			got = ""
		}
		if got != tt.want || ok != (tt.want != "") {
			t.Errorf("%s: %q, %v; want %q", name, got, ok, tt.want)
		}
	}
}

func TestSet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dcm.conf")
	for n, mode := range []partition.Compute{"SPX", "DPX", "TPX", "QPX", "CPX"} {
		for _, want := range []bool{true, false} {
			if changed, err := Set(path, mode); changed != want || err != nil {
				t.Errorf("%s: changed %v, %v; want %v", mode, changed, err, want)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil || !strings.HasSuffix(string(got), "\noptions amdgpu user_partt_mode="+string(rune('0'+n))+"\n") {
			t.Errorf("%s: %q, %v", mode, got, err)
		}
	}
}

func TestDrop(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dcm.conf")
	for _, tt := range []struct {
		has, unless partition.Compute
		want        bool
	}{{"", "", false}, {"", "CPX", false}, {"CPX", "CPX", false}, {"CPX", "DPX", true}, {"CPX", "", true}} {
		os.Remove(path)
		if tt.has != "" {
			if _, err := Set(path, tt.has); err != nil {
				t.Fatal(err)
			}
		}
		changed, err := Drop(path, tt.unless)
		if _, gone := os.Stat(path); changed != tt.want || err != nil || tt.has != "" && (gone != nil) != tt.want {
			t.Errorf("%+v: changed %v, %v; the file: %v", tt, changed, err, gone)
		}
	}
}

func TestForeignFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dcm.conf")
	const own = "options amdgpu vm_size=8\n"
	if err := os.WriteFile(path, []byte(own), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Set(path, partition.CPX); !errors.Is(err, ErrForeign) {
		t.Errorf("set: %v", err)
	}
	if changed, err := Drop(path, ""); changed || err != nil {
		t.Errorf("drop: %v, %v", changed, err)
	}
	if got, err := os.ReadFile(path); string(got) != own {
		t.Errorf("the file reads %q, %v", got, err)
	}
	if _, err := Set(filepath.Join(path, "x"), partition.CPX); err == nil {
		t.Error("a file that cannot be read is no error")
	}
}
