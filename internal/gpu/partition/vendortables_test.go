package partition

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// vendorData holds facts of a vendor's document, with their source and date.
type vendorData struct {
	Document, Source, Revision, Read string

	Combinations map[string][]string
	Boards       map[string]map[string]int
	Excluded     map[string][]map[string]int
	Devices      []struct{ Device, Board, Product string }
	Models       []struct {
		Name, Device, Virtual string
		XCC                   int
	}
}

func readVendorData(t *testing.T, name string) vendorData {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "vendor", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var d vendorData
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if d.Document == "" || d.Source == "" || d.Revision == "" || d.Read == "" {
		t.Errorf("%s: document, source, revision or date is missing", name)
	}
	return d
}

// Every pair of modes is listed exactly if AMD's document lists it.
func TestModels_ListedModes(t *testing.T) {
	for document, file := range map[Document]string{
		partitioningMatrix(): "amd-partition-matrix", rocm713(): "amd-rocm-7.13", mi300aGuide(): "amd-mi300a-guide",
		smiGuide(): "amd-smi-guide",
	} {
		d := readVendorData(t, file)
		if document.Name != d.Document || document.Revision != d.Revision {
			t.Errorf("%s: the document is %s, %s; want %s, %s", file, document.Name, document.Revision, d.Document, d.Revision)
		}
		for _, m := range models() {
			var got []string
			for _, c := range ComputeModes() {
				for _, n := range MemoryModes() {
					if m.listedIn(c, n) == document {
						got = append(got, Mode{c, n}.String())
					}
				}
			}
			want := slices.Sorted(slices.Values(d.Combinations[m.Name]))
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s of %s (-document +table):\n%s", m.Name, file, diff)
			}
		}
	}
}

func TestModels_DeviceIDs(t *testing.T) {
	for _, want := range readVendorData(t, "amd-models").Models {
		for id, virtual := range map[string]bool{want.Device: false, want.Virtual: true} {
			n, err := strconv.ParseUint(id, 0, 16)
			if err != nil {
				t.Fatal(err)
			}
			m, ok := LookupModel(AMD, uint16(n))
			name := want.Name
			if virtual {
				name += " VF"
			}
			if !ok || m.Name != name || m.Virtual != virtual {
				t.Errorf("%s: %q, virtual %t; want %q, %t", id, m.Name, m.Virtual, name, virtual)
			}
			if !virtual && m.XCC != want.XCC {
				t.Errorf("%s: %d XCC, want %d", m.Name, m.XCC, want.XCC)
			}
		}
	}
}

// Every device id of the table of boards is in the list of ids, with a product of that kind.
func TestBoards_DeviceIDs(t *testing.T) {
	want := make(map[string]string)
	for _, d := range readVendorData(t, "pci-ids").Devices {
		want[d.Device] = d.Board
	}
	got := make(map[string]string)
	for _, b := range boards() {
		for _, id := range append([]uint16{b.device}, b.aliases...) {
			got[fmt.Sprintf("0x%04x", id)] = b.name
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-pci.ids +table):\n%s", diff)
	}
}

func TestBoards_Profiles(t *testing.T) {
	for name, want := range readVendorData(t, "nvidia-mig-profiles").Boards {
		b, ok := LookupBoard(name)
		if !ok {
			t.Errorf("no board %s", name)
			continue
		}
		got := make(map[string]int)
		for _, p := range b.Profiles {
			got[p.Name] = p.InstanceCount
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-document +table):\n%s", name, diff)
		}
	}
}

// A geometry that NVIDIA excludes gets a remark with the document.
func TestBoards_ExcludedGeometries(t *testing.T) {
	d := readVendorData(t, "nvidia-dgx-station")
	if s := dgxStation(); s.Name != d.Document || s.Revision != d.Revision || s.Read != d.Read {
		t.Errorf("the document is %s; want %s, revision %s, read %s", s, d.Document, d.Revision, d.Read)
	}
	for name, geometries := range d.Excluded {
		b, ok := LookupBoard(name)
		if !ok {
			t.Fatalf("no board %s", name)
		}
		for _, counts := range geometries {
			m, err := NewMIG(counts)
			if err != nil {
				t.Fatal(err)
			}
			g := GPU{Vendor: NVIDIA, Device: b.Device, MIG: &m}
			got := Remarks([]GPU{g})
			if len(got) != 1 || got[0].Source != dgxStation() {
				t.Errorf("%s with %s: remarks %v", name, m, got)
			}
			g.Device = 0x3182 // a B300, about which the document says nothing
			if got := Remarks([]GPU{g}); got != nil {
				t.Errorf("B300 with %s: remarks %v, want none", m, got)
			}
		}
		for _, p := range b.Profiles { // each alone is possible
			m, err := NewMIG(map[string]int{p.Name: p.InstanceCount})
			if err != nil {
				t.Fatal(err)
			}
			if got := Remarks([]GPU{{Vendor: NVIDIA, Device: b.Device, MIG: &m}}); got != nil {
				t.Errorf("%s with %s: remarks %v, want none", name, m, got)
			}
		}
	}
}
