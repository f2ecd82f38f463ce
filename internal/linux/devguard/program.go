package devguard

import (
	"bytes"
	"encoding/binary"
)

// depth is the maximum depth of a cgroup in the table, counted from the root of the host. In a
// container, some levels are above the visible root.
const depth = 24

// instruction is struct bpf_insn of linux/bpf.h.
type instruction struct {
	code     uint8
	register uint8 // destination register + 16 * source register
	offset   int16
	value    int32
}

// Instruction codes (Documentation/bpf/standardization).
const (
	moveRegister = 0xbf // dst = src
	moveValue    = 0xb7 // dst = value
	addValue     = 0x07 // dst += value
	andValue     = 0x57 // dst &= value
	shiftRight   = 0x77 // dst >>= value
	load32       = 0x61 // dst = *(u32 *)(src + offset)
	store32      = 0x63 // *(u32 *)(dst + offset) = src
	store64      = 0x7b // *(u64 *)(dst + offset) = src
	storeValue64 = 0x7a // *(u64 *)(dst + offset) = value
	loadMap      = 0x18 // dst = map; takes two instructions
	call         = 0x85
	exit         = 0x95
	ifEqual      = 0x15 // if dst == value, skip offset instructions
	ifNotEqual   = 0x55
)

// Helpers of the kernel (bpf-helpers(7)), and numbers of linux/bpf.h.
const (
	lookupElement   = 1
	ancestorID      = 123 // bpf_get_current_ancestor_cgroup_id
	pseudoMap       = 1 << 4
	characterDevice = 2 // BPF_DEVCG_DEV_CHAR
	readWrite       = 6 // BPF_DEVCG_ACC_READ and _WRITE, without _MKNOD
)

// program returns the instructions. The argument of the program is struct bpf_cgroup_dev_ctx:
// access_type, whose lower half is the type of the device, major and minor. The program returns 0 to
// deny the open, and 1 to allow it unless another program denies it.
func program(table int) []instruction {
	p := []instruction{
		{load32, 2 | 1<<4, 0, 0},
		{moveRegister, 3 | 2<<4, 0, 0},
		{shiftRight, 3, 0, 16},
		{andValue, 3, 0, readWrite},
		{ifEqual, 3, allow, 0}, // neither read nor write: mknod(2), or access(2) with F_OK
		{andValue, 2, 0, 0xffff},
		{ifNotEqual, 2, allow, characterDevice},
		// Build two keys, see permission: for this device and for all devices. The upper half of a word is
		// stored first: Linux 6.1 takes a store at the word's start for a spilled register, of which a process
		// without CAP_PERFMON may not overwrite a part.
		{load32, 2 | 1<<4, 8, 0},
		{store32, 10 | 2<<4, thisKey + 4, 0},
		{load32, 2 | 1<<4, 4, 0},
		{store32, 10 | 2<<4, thisKey, 0},
		{storeValue64, 10, thisKey + 8, 0},
		{storeValue64, 10, anyKey, 0},
		{loadMap, 6 | pseudoMap, 0, int32(table)}, {},
		{moveRegister, 1 | 6<<4, 0, 0},
		{moveRegister, 2 | 10<<4, 0, 0},
		{addValue, 2, 0, thisKey},
		{call, 0, 0, lookupElement},
		{ifEqual, 0, allow, 0}, // the device is not guarded
	}
	// Look up the ancestors of the process's cgroup, from the root to the cgroup itself. For deeper
	// levels the helper returns 0.
	for level := int32(1); level <= depth; level++ {
		p = append(p,
			instruction{moveValue, 1, 0, level},
			instruction{call, 0, 0, ancestorID},
			instruction{ifEqual, 0, deny, 0},
			instruction{store64, 10 | 0<<4, thisKey + 8, 0},
			instruction{store64, 10 | 0<<4, anyKey + 8, 0},
		)
		for _, key := range []int32{thisKey, anyKey} {
			p = append(p,
				instruction{moveRegister, 1 | 6<<4, 0, 0},
				instruction{moveRegister, 2 | 10<<4, 0, 0},
				instruction{addValue, 2, 0, key},
				instruction{call, 0, 0, lookupElement},
				instruction{ifNotEqual, 0, allow, 0},
			)
		}
	}
	p = append(p, instruction{moveValue, 0, 0, 0}, instruction{exit, 0, 0, 0}, instruction{moveValue, 0, 0, 1}, instruction{exit, 0, 0, 0})
	return resolve(p)
}

// Offsets of the keys on the stack.
const (
	thisKey = -16
	anyKey  = -32
)

// allow and deny are placeholders for the offsets to the two ends of the program; see resolve.
const (
	allow int16 = -1
	deny  int16 = -2
)

func resolve(p []instruction) []instruction {
	for i := range p {
		jump := p[i].code == ifEqual || p[i].code == ifNotEqual
		switch {
		case jump && p[i].offset == allow:
			p[i].offset = int16(len(p) - 2 - i - 1)
		case jump && p[i].offset == deny:
			p[i].offset = int16(len(p) - 4 - i - 1)
		}
	}
	return p
}

// encode returns the program in the kernel's binary form.
func encode(p []instruction) []byte {
	var b bytes.Buffer
	for _, i := range p {
		_ = binary.Write(&b, binary.NativeEndian, i) // cannot fail: the type has a fixed size
	}
	return b.Bytes()
}
