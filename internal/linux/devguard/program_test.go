package devguard

import "testing"

// Linux 6.1 takes a store of a register at the start of a word of the stack for a spilled register. It denies a
// program without CAP_PERFMON a later store into a part of this word.
func TestProgram_OverwritesNoSpilledRegister(t *testing.T) {
	const word = 8
	spilled := make(map[int16]bool)
	for i, p := range program(0) {
		if p.code != store32 && p.code != store64 && p.code != storeValue64 {
			continue
		}
		start := p.offset - (p.offset%word+word)%word
		if spilled[start] && p.code == store32 {
			t.Errorf("instruction %d stores 4 bytes at %d, over the register at %d", i, p.offset, start)
		}
		spilled[start] = p.code != storeValue64 && p.offset == start
	}
}
