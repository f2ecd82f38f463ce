package amdsmi

import (
	"encoding/binary"
	"fmt"
	"slices"

	"dcm/internal/gpu/partition"
)

const (
	initGPUs = 2 // AMDSMI_INIT_AMD_GPUS
	kindGPU  = 1 // AMDSMI_PROCESSOR_TYPE_AMD_GPU

	maxHandles = bufferSize / 8
)

// processor is a GPU in the library's enumeration. Its handle is valid until the library is
// shut down.
type processor struct {
	handle  uintptr
	address partition.Address
}

func (l *library) start() error {
	if status := l.initialise(initGPUs); status != 0 {
		return failStatus(Unusable, status, "cannot initialise %s", l.file)
	}
	return nil
}

// restart makes the library enumerate again, since it keeps its list after a switch.
func (l *library) restart() error {
	if status := l.shutDown(); status != 0 {
		return failStatus(Unusable, status, "cannot shut %s down", l.file)
	}
	return l.start()
}

// gpus lists one GPU for each PCI function. Of a partitioned GPU it is the first partition,
// the only one with settable modes.
func (l *library) gpus() ([]processor, error) {
	sockets, err := handles("amdsmi_get_socket_handles", l.sockets)
	if err != nil {
		return nil, err
	}
	var out []processor
	for _, s := range sockets {
		found, err := handles("amdsmi_get_processor_handles", func(n *uint32, b *byte) uint32 { return l.processors(s, n, b) })
		if err != nil {
			return nil, err
		}
		for _, h := range found {
			p, ok, err := l.processor(h)
			if err != nil {
				return nil, err
			}
			if ok {
				out = l.add(out, p)
			}
		}
	}
	return out, nil
}

// add adds p unless its PCI function is in the list. An older library lists all partitions
// alike; the one with a readable mode is the first.
func (l *library) add(all []processor, p processor) []processor {
	i := slices.IndexFunc(all, func(other processor) bool { return other.address == p.address })
	if i < 0 {
		return append(all, p)
	}
	if _, err := l.computeMode(all[i].handle); err != nil {
		all[i] = p
	}
	return all
}

// processor identifies a handle. ok is false if it is not a GPU's first partition.
func (l *library) processor(handle uintptr) (p processor, ok bool, err error) {
	b := make([]byte, bufferSize)
	kind, bdf := uint32(0), uint64(0)
	if status := l.kind(handle, &kind); status != 0 {
		return p, false, failStatus(Refused, status, "amdsmi_get_processor_type")
	}
	if kind != kindGPU {
		return p, false, nil
	}
	if l.kfd != nil && l.kfd(handle, &b[0]) == 0 {
		const partitionID, none = 12, 0xFFFFFFFF
		if id := binary.NativeEndian.Uint32(b[partitionID:]); id != 0 && id != none {
			return p, false, nil
		}
	}
	if status := l.bdf(handle, &bdf); status != 0 {
		return p, false, failStatus(Refused, status, "amdsmi_get_gpu_device_bdf")
	}
	address, err := decodeBDF(bdf)
	return processor{handle: handle, address: address}, true, err
}

// decodeBDF parses amdsmi_bdf_t: 3 bits of function, 5 of device, 8 of bus, 48 of domain. A
// domain has at most 32 bits.
func decodeBDF(bdf uint64) (partition.Address, error) {
	domain := bdf >> 16
	if bdf == 0 || domain > 0xFFFFFFFF {
		return "", fail(Garbage, "the library returned %#x as a PCI address", bdf)
	}
	return partition.Address(fmt.Sprintf("%04x:%02x:%02x.%x", domain, bdf>>8&0xFF, bdf>>3&0x1F, bdf&7)), nil
}

// handles calls a function that fills an array of handles.
func handles(name string, call func(count *uint32, handles *byte) uint32) ([]uintptr, error) {
	b := make([]byte, bufferSize)
	n := uint32(maxHandles)
	if status := call(&n, &b[0]); status != 0 {
		return nil, failStatus(Refused, status, "%s", name)
	}
	if n > maxHandles {
		return nil, fail(Garbage, "%s returned %d handles", name, n)
	}
	out := make([]uintptr, n)
	for i := range out {
		out[i] = uintptr(binary.NativeEndian.Uint64(b[8*i:]))
		if out[i] == 0 {
			return nil, fail(Garbage, "handle %d of %s is null", i, name)
		}
	}
	return out, nil
}

// mode reads a mode as text.
func mode(name string, handle uintptr, read func(uintptr, *byte, uint32) uint32) (string, error) {
	b := make([]byte, bufferSize)
	if status := read(handle, &b[0], bufferSize); status != 0 {
		return "", failStatus(Refused, status, "%s", name)
	}
	text := textIn(b, 0)
	if text == "" {
		return "", fail(Garbage, "%s returned no text", name)
	}
	return text, nil
}

func (l *library) computeMode(handle uintptr) (string, error) {
	return mode("amdsmi_get_gpu_compute_partition", handle, l.readCompute)
}

func (l *library) memoryMode(handle uintptr) (string, error) {
	return mode("amdsmi_get_gpu_memory_partition", handle, l.readMemory)
}
