package binding

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/gpu/nvml/standin"
)

// program prints the sizes and offsets that a C compiler gives the structures.
const program = `
#include <stddef.h>
#include <stdio.h>
#define SIZE(t) printf(#t " %zu\n", sizeof(t))
#define AT(t, f) printf(#t "." #f " %zu\n", offsetof(t, f))
int main(void)
{
	AT(pci_t, domain); AT(pci_t, bus); AT(pci_t, device); AT(pci_t, pciDeviceId); AT(pci_t, pciSubSystemId); SIZE(pci_t);
	SIZE(placement_t); AT(placement_t, start); AT(placement_t, size);
	SIZE(gi_profile_v1_t); AT(gi_profile_v1_t, id); AT(gi_profile_v1_t, sliceCount); AT(gi_profile_v1_t, instanceCount); AT(gi_profile_v1_t, memorySizeMB);
	SIZE(gi_profile_v2_t); AT(gi_profile_v2_t, id); AT(gi_profile_v2_t, sliceCount); AT(gi_profile_v2_t, instanceCount); AT(gi_profile_v2_t, memorySizeMB); AT(gi_profile_v2_t, name);
	SIZE(ci_profile_v2_t); AT(ci_profile_v2_t, id); AT(ci_profile_v2_t, sliceCount); AT(ci_profile_v2_t, instanceCount); AT(ci_profile_v2_t, name);
	SIZE(gi_info_t); AT(gi_info_t, id); AT(gi_info_t, profileId); AT(gi_info_t, placement);
	SIZE(ci_info_t); AT(ci_info_t, id); AT(ci_info_t, profileId); AT(ci_info_t, placement);
	SIZE(field_t); AT(field_t, fieldId); AT(field_t, valueType); AT(field_t, nvmlReturn); AT(field_t, value);
	SIZE(process_t); AT(process_t, pid); AT(process_t, usedGpuMemory); AT(process_t, gpuInstanceId); AT(process_t, computeInstanceId);
	SIZE(memory_t); AT(memory_t, total); AT(memory_t, used);
	SIZE(memory_v2_t); AT(memory_v2_t, total); AT(memory_v2_t, used);
	return 0;
}
`

func TestLayout_Offsets(t *testing.T) {
	file := filepath.Join(t.TempDir(), "layout")
	err := standin.Compile(t.Context(), program, "-o", file)
	if errors.Is(err, standin.ErrNoCompiler) && os.Getenv("DCM_E2E") != "require" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), file).Output()
	if err != nil {
		t.Fatal(err)
	}
	const pciSize = 68
	want := lines("pci_t.domain", pciDomain, "pci_t.bus", pciBus, "pci_t.device", pciDevice, "pci_t.pciDeviceId", pciDeviceID, "pci_t.pciSubSystemId", pciSubsystem, "pci_t", pciSize,
		"placement_t", placementSize, "placement_t.start", placementStart, "placement_t.size", placementLength,
		"gi_profile_v1_t", giV1Size, "gi_profile_v1_t.id", giV1ID, "gi_profile_v1_t.sliceCount", giV1Slices, "gi_profile_v1_t.instanceCount", giV1Count, "gi_profile_v1_t.memorySizeMB", giV1Memory,
		"gi_profile_v2_t", giV2Size, "gi_profile_v2_t.id", giV2ID, "gi_profile_v2_t.sliceCount", giV2Slices, "gi_profile_v2_t.instanceCount", giV2Count, "gi_profile_v2_t.memorySizeMB", giV2Memory, "gi_profile_v2_t.name", giV2Name,
		"ci_profile_v2_t", ciV2Size, "ci_profile_v2_t.id", ciV2ID, "ci_profile_v2_t.sliceCount", ciV2Slices, "ci_profile_v2_t.instanceCount", ciV2Count, "ci_profile_v2_t.name", ciV2Name,
		"gi_info_t", giInfoSize, "gi_info_t.id", giInfoID, "gi_info_t.profileId", giInfoProfile, "gi_info_t.placement", giInfoPlacement,
		"ci_info_t", ciInfoSize, "ci_info_t.id", ciInfoID, "ci_info_t.profileId", ciInfoProfile, "ci_info_t.placement", ciInfoPlacement,
		"field_t", fieldSize, "field_t.fieldId", fieldID, "field_t.valueType", fieldType, "field_t.nvmlReturn", fieldReturn, "field_t.value", fieldValue,
		"process_t", processSize, "process_t.pid", processPID, "process_t.usedGpuMemory", processMemory, "process_t.gpuInstanceId", processInstance, "process_t.computeInstanceId", processCInst,
		"memory_t", memorySize, "memory_t.total", memoryTotal, "memory_t.used", memoryUsed,
		"memory_v2_t", memoryV2Size, "memory_v2_t.total", memoryV2Total, "memory_v2_t.used", memoryV2Used)
	if diff := cmp.Diff(want, strings.Split(strings.TrimSpace(string(out)), "\n")); diff != "" {
		t.Errorf("(-dcm's +C's):\n%s", diff)
	}
	if gi, ci, memory := version(giV2Size, 2), version(ciV2Size, 2), version(memoryV2Size, 2); gi != 0x2000098 || ci != 0x2000088 || memory != 0x2000028 {
		t.Errorf("versions %#x, %#x, %#x", gi, ci, memory)
	}
}

// lines writes names and numbers as the program prints them.
func lines(pairs ...any) (out []string) {
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, fmt.Sprintf("%s %d", pairs[i], pairs[i+1]))
	}
	return out
}

// FuzzText: whatever a library writes, what is read of it is printable text.
func FuzzText(f *testing.F) {
	f.Add([]byte("MIG 1g.5gb\x00rest"))
	f.Add([]byte("\xff\xfe"))
	f.Fuzz(func(t *testing.T, data []byte) {
		b := newBuffer()
		copy(b, data)
		for _, r := range b.text(0, nameLength) {
			if r < ' ' || r > '~' {
				t.Fatalf("%q of %q", r, data)
			}
		}
	})
}
