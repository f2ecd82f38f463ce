package binding

import (
	"bytes"
	"encoding/binary"
	"strings"
)

// bufferSize is the size of every buffer for the library, so that a larger structure of a
// newer version fits.
const bufferSize = 64 << 10

// Sizes and offsets of the library's structures in bytes.
const (
	pciDomain, pciBus, pciDevice, pciDeviceID, pciSubsystem = 16, 20, 24, 28, 32

	placementSize, placementStart, placementLength = 8, 0, 4

	// GPU instance profiles: version 1 of the structure has no version field, version 2 has.
	giV1Size, giV1ID, giV1Slices, giV1Count, giV1Memory                   = 48, 0, 8, 12, 40
	giV2Size, giV2ID, giV2Slices, giV2Count, giV2Memory, giV2Name         = 152, 4, 12, 16, 48, 56
	ciV2Size, ciV2ID, ciV2Slices, ciV2Count, ciV2Name                     = 136, 4, 8, 12, 40
	giInfoSize, giInfoID, giInfoProfile, giInfoPlacement                  = 24, 8, 12, 16
	ciInfoSize, ciInfoID, ciInfoProfile, ciInfoPlacement                  = 32, 16, 20, 24
	fieldSize, fieldID, fieldType, fieldReturn, fieldValue                = 40, 0, 24, 28, 32
	processSize, processPID, processMemory, processInstance, processCInst = 24, 0, 8, 16, 20
	memorySize, memoryTotal, memoryUsed                                   = 24, 0, 16
	memoryV2Size, memoryV2Total, memoryV2Used                             = 40, 8, 32

	nameLength = 96
)

// version returns the version field of a structure.
func version(size, number uint32) uint32 { return number<<24 | size }

// buffer is memory that the library writes to.
type buffer []byte

func newBuffer() buffer { return make(buffer, bufferSize) }

func (b buffer) u32(offset int) uint32 { return binary.NativeEndian.Uint32(b[offset:]) }

func (b buffer) u64(offset int) uint64 { return binary.NativeEndian.Uint64(b[offset:]) }

func (b buffer) put32(offset int, v uint32) { binary.NativeEndian.PutUint32(b[offset:], v) }

// text returns the C string at an offset; "" if it is not printable.
func (b buffer) text(offset, most int) string {
	t := b[offset : offset+most]
	end := bytes.IndexByte(t, 0)
	if end < 0 {
		return ""
	}
	for _, c := range t[:end] {
		if c < ' ' || c > '~' {
			return ""
		}
	}
	return strings.TrimSpace(string(t[:end]))
}
