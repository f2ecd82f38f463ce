package binding

import (
	"fmt"
	"slices"

	"dcm/internal/gpu/nvml"
	"dcm/internal/gpu/partition"
)

// looker reads the facts about one GPU. A fact that cannot be read is a note, since the
// others are still useful.
type looker struct {
	lib    *library
	device uintptr
	gpu    *nvml.GPU
	inside map[int][]computeProfile // by profile id of the GPU instance

	unnamed *[]unnamedProfile
}

func newLooker(l *library, a partition.Address) looker {
	return looker{lib: l, gpu: &nvml.GPU{Address: a}, inside: make(map[int][]computeProfile), unnamed: new([]unnamedProfile)}
}

// look reads one GPU.
func look(l *library, a partition.Address, usage bool) nvml.GPU {
	k := newLooker(l, a)
	var err error
	if k.device, err = l.device(a); err == nil {
		err = k.all(usage)
	}
	k.gpu.Error = nvml.AsFailure(err)
	return *k.gpu
}

// all reads all facts. A GPU that is lost, or is not the requested one, is an error.
func (k looker) all(usage bool) error {
	if err := k.identity(); err != nil {
		return err
	}
	mode, err := k.lib.mode(k.device)
	if err != nil {
		return err
	}
	k.gpu.MIG = mode
	if mode != nil {
		k.note("resetless", k.resetless())
		if err := k.slots(usage); err != nil {
			return err
		}
	}
	k.processes()
	if usage {
		u, err := k.lib.usage(k.device)
		k.note("usage", err)
		k.gpu.Usage = u
	}
	return nil
}

// slots reads the profiles and, with MIG on, the instances. Here a failed read is an error,
// since the slots of an unknown instance would count as free.
func (k looker) slots(usage bool) error {
	err := k.profiles()
	if !k.gpu.MIG.Current {
		k.note("profiles", err)
		return nil
	}
	if err != nil {
		return err
	}
	return k.readInstances(usage)
}

// mostReads limits how often the instances of a GPU are read while they change.
const mostReads = 10

// readInstances reads the instances and their MIG devices. Another process may create or destroy
// some between two calls of the library, so it reads all again until they agree, or until two
// reads return the same.
func (k looker) readInstances(usage bool) error {
	notes := slices.Clip(k.gpu.Notes)
	var last string
	for range mostReads {
		k.gpu.Instances, k.gpu.Devices, k.gpu.Notes = nil, nil, notes
		err := k.readInstancesOnce(usage)
		if err == nil && k.allHaveDevices() || err != nil && !mayHaveChanged(err) {
			return err
		}
		now := fmt.Sprint(k.gpu.Instances, k.deviceIDs(), err)
		if now == last {
			return err
		}
		last = now
	}
	return nvml.Fail(nvml.Timeout, "the instances of %s changed during each of %d reads", k.gpu.Address, mostReads)
}

func (k looker) readInstancesOnce(usage bool) error {
	list, err := k.list()
	for _, i := range list {
		k.gpu.Instances = append(k.gpu.Instances, i.Instance)
	}
	if err != nil {
		return err
	}
	k.devices(usage)
	return k.complete()
}

// mayHaveChanged reports whether an error may mean that an instance was created or destroyed
// during the read. nvml.h has NOT_FOUND for what does not exist, and INVALID_ARGUMENT for an invalid
// handle; which of them a driver returns for a destroyed instance was not seen.
func mayHaveChanged(err error) bool {
	status := statusOf(err)
	return status == nvml.StatusNotFound || status == nvml.StatusInvalidArgument || kindOf(err) == nvml.Garbage
}

// allHaveDevices reports whether each compute instance has a MIG device. The driver lists one for
// each.
func (k looker) allHaveDevices() bool {
	for _, i := range k.gpu.Instances {
		for _, c := range i.Compute {
			if !slices.ContainsFunc(k.gpu.Devices, func(d nvml.Device) bool { return d.GPUInstance == i.ID && d.ComputeInstance == c.ID }) {
				return false
			}
		}
	}
	return true
}

func (k looker) deviceIDs() []string {
	var out []string
	for _, d := range k.gpu.Devices {
		out = append(out, fmt.Sprintf("%s %d %d", d.UUID, d.GPUInstance, d.ComputeInstance))
	}
	return out
}

// complete returns an error if a MIG device belongs to an instance that was not listed
// because its profile has an unknown index.
func (k looker) complete() error {
	for _, d := range k.gpu.Devices {
		if d.GPUInstance < 0 {
			continue
		}
		at := slices.IndexFunc(k.gpu.Instances, func(i nvml.Instance) bool { return i.ID == d.GPUInstance })
		if at < 0 {
			return nvml.Fail(nvml.Garbage, "%s belongs to instance %d, which is not listed", d.UUID, d.GPUInstance)
		}
		listed := slices.ContainsFunc(k.gpu.Instances[at].Compute, func(c nvml.ComputeInstance) bool { return c.ID == d.ComputeInstance })
		if d.ComputeInstance >= 0 && !listed {
			return nvml.Fail(nvml.Garbage, "%s is compute instance %d of instance %d, which is not listed", d.UUID, d.ComputeInstance, d.GPUInstance)
		}
	}
	return nil
}

func (k looker) note(what string, err error) {
	if err != nil {
		k.gpu.Notes = append(k.gpu.Notes, what+": "+err.Error())
	}
}

func (k looker) identity() error {
	b := newBuffer()
	err := k.lib.call(symPCI, func() uint32 { return k.lib.pci(k.device, &b[0]) })
	if kindOf(err) == nvml.Lost {
		return err
	}
	k.note("PCI", err)
	if err == nil {
		if at := fmt.Sprintf("%04x:%02x:%02x.0", b.u32(pciDomain), b.u32(pciBus), b.u32(pciDevice)); at != string(k.gpu.Address) {
			return nvml.Fail(nvml.Garbage, "the library returned the wrong GPU (found %s, want %s)", at, k.gpu.Address)
		}
		k.gpu.Device, k.gpu.Subsystem = b.u32(pciDeviceID), b.u32(pciSubsystem)
	}
	k.gpu.UUID = k.text(symUUID, k.device, k.lib.uuid)
	k.gpu.Name = k.text(symName, k.device, k.lib.name)
	if k.gpu.Serial, err = k.lib.text(symSerial, k.device, k.lib.serial); kindOf(err) != nvml.NotSupported {
		k.note(symSerial, err)
	}
	if u, err := k.lib.memoryOf(k.device); err == nil {
		k.gpu.Memory = u.MemoryTotal
	} else {
		k.note("memory", err)
	}
	var minor uint32
	err = k.lib.call(symMinor, func() uint32 { return k.lib.minor(k.device, &minor) })
	k.note("minor", err)
	if n := int(minor); err == nil && n < 1<<16 {
		k.gpu.Minor = &n
	}
	k.gpu.Virtualization, err = k.lib.virtualized(k.device)
	k.note("virtualization", err)
	return nil
}

// text reads a text. A failure is recorded as a note.
func (k looker) text(name string, handle uintptr, read func(uintptr, *byte, uint32) uint32) string {
	out, err := k.lib.text(name, handle, read)
	k.note(name, err)
	return out
}

// text reads a text; "" with an error.
func (l *library) text(name string, handle uintptr, read func(uintptr, *byte, uint32) uint32) (string, error) {
	b := newBuffer()
	if err := l.call(name, func() uint32 { return read(handle, &b[0], nameLength) }); err != nil {
		return "", err
	}
	out := b.text(0, nameLength)
	if out == "" {
		return "", nvml.Fail(nvml.Garbage, "%s returned no text", name)
	}
	return out, nil
}

func (l *library) virtualized(device uintptr) (string, error) {
	var mode uint32
	if err := l.call(symVirtualization, func() uint32 { return l.virtualization(device, &mode) }); err != nil {
		return "", err
	}
	names := []string{nvml.Bare, nvml.Passthrough, nvml.VGPUGuest, nvml.VGPUHost, nvml.VSGAHost}
	if int64(mode) >= int64(len(names)) {
		return "", nvml.Fail(nvml.Garbage, "%s returned mode %d", symVirtualization, mode)
	}
	return names[mode], nil
}

// mode reads the MIG mode; nil for a GPU without MIG.
func (l *library) mode(device uintptr) (*nvml.MIGMode, error) {
	var current, pending uint32
	err := l.call(symMIGMode, func() uint32 { return l.migMode(device, &current, &pending) })
	switch {
	case kindOf(err) == nvml.NotSupported:
		return nil, nil
	case err != nil:
		return nil, err
	case current > 1 || pending > 1:
		return nil, nvml.Fail(nvml.Garbage, "%s returned modes %d and %d", symMIGMode, current, pending)
	}
	return &nvml.MIGMode{Current: current == 1, Pending: pending == 1}, nil
}

// resetless reads whether the mode changes without a reset.
func (k looker) resetless() error {
	yes, err := k.lib.resetless(k.device)
	k.gpu.Resetless = yes
	return err
}

func (l *library) resetless(device uintptr) (*bool, error) {
	const isResetless = 184
	b := newBuffer()
	b.put32(fieldID, isResetless)
	if err := l.call(symFields, func() uint32 { return l.fields(device, 1, &b[0]) }); err != nil {
		return nil, err
	}
	if status := b.u32(fieldReturn); status != 0 {
		return nil, nvml.FailStatus(status, "field %d", isResetless)
	}
	yes := b.u32(fieldValue)&1 == 1
	return &yes, nil
}

func (l *library) usage(device uintptr) (*nvml.Usage, error) {
	u, err := l.memoryOf(device)
	if err != nil {
		return nil, err
	}
	b := newBuffer()
	// Few drivers report it for MIG devices.
	if l.call(symUtilization, func() uint32 { return l.utilization(device, &b[0]) }) == nil {
		if percent := int(b.u32(0)); percent <= 100 {
			u.Utilization = &percent
		}
	}
	var energy uint64
	if l.call(symEnergy, func() uint32 { return l.energy(device, &energy) }) == nil { // not of a MIG device
		u.Energy = energy
	}
	return u, nil
}

// memoryOf reads the memory of a GPU or MIG device. Version 1 of the structure, which every driver
// has, counts what the driver reserves for itself as used.
func (l *library) memoryOf(device uintptr) (*nvml.Usage, error) {
	name, b := symMemoryV2, newBuffer()
	b.put32(0, version(memoryV2Size, 2))
	err := l.call(name, func() uint32 { return l.memoryV2(device, &b[0]) })
	u := &nvml.Usage{MemoryTotal: b.u64(memoryV2Total), MemoryUsed: b.u64(memoryV2Used)}
	if kind := kindOf(err); kind == nvml.NotSupported || kind == nvml.Unusable {
		name = symMemory
		err = l.call(name, func() uint32 { return l.memory(device, &b[0]) })
		u = &nvml.Usage{MemoryTotal: b.u64(memoryTotal), MemoryUsed: b.u64(memoryUsed)}
	}
	if err == nil && u.MemoryUsed > u.MemoryTotal {
		err = nvml.Fail(nvml.Garbage, "%s returned %d bytes in use of %d", name, u.MemoryUsed, u.MemoryTotal)
	}
	return u, err
}

// devices lists the MIG devices.
func (k looker) devices(usage bool) {
	var most uint32
	err := k.lib.call(symMaxDevices, func() uint32 { return k.lib.maxDevices(k.device, &most) })
	if err == nil && most > maxHandles {
		err = nvml.Fail(nvml.Garbage, "%s returned %d", symMaxDevices, most)
	}
	if err != nil {
		k.note("MIG devices", err)
		return
	}
	for i := range most {
		var mig uintptr
		err := k.lib.call(symMIGDevice, func() uint32 { return k.lib.migDevice(k.device, i, &mig) })
		if statusOf(err) == nvml.StatusNotFound {
			continue
		}
		if err != nil {
			k.note("MIG devices", err)
			return
		}
		k.gpu.Devices = append(k.gpu.Devices, k.migDeviceOf(mig, usage))
	}
}

func (k looker) migDeviceOf(mig uintptr, usage bool) nvml.Device {
	d := nvml.Device{UUID: k.text(symUUID, mig, k.lib.uuid), GPUInstance: k.number(symInstanceOf, mig, k.lib.instanceOf), ComputeInstance: k.number(symComputeOf, mig, k.lib.computeOf)}
	if usage {
		u, err := k.lib.usage(mig)
		k.note("usage of "+d.UUID, err)
		d.Usage = u
	}
	return d
}

// number reads a number; -1 if it is missing.
func (k looker) number(name string, handle uintptr, read func(uintptr, *uint32) uint32) int {
	var n uint32
	err := k.lib.call(name, func() uint32 { return read(handle, &n) })
	k.note(name, err)
	if err != nil || n > 1<<16 {
		return -1
	}
	return int(n)
}

// processes lists the processes with CUDA or graphics, as far as the driver reports them.
func (k looker) processes() {
	for _, s := range []struct {
		name     string
		list     func(uintptr, *uint32, *byte) uint32
		graphics bool
	}{{symCompute, k.lib.compute, false}, {symGraphics, k.lib.graphics, true}} {
		const most = bufferSize / processSize
		b, n := newBuffer(), uint32(most)
		err := k.lib.call(s.name, func() uint32 { return s.list(k.device, &n, &b[0]) })
		if err == nil && n > most {
			err = nvml.Fail(nvml.Garbage, "%s returned %d processes", s.name, n)
		}
		if err != nil {
			if kindOf(err) != nvml.NotSupported {
				k.note("processes", err)
			}
			continue
		}
		for i := range int(n) {
			k.gpu.Processes = append(k.gpu.Processes, process(b[i*processSize:], s.graphics))
		}
	}
}

func process(b buffer, graphics bool) nvml.Process {
	p := nvml.Process{PID: int(b.u32(processPID)), Graphics: graphics, Memory: b.u64(processMemory), GPUInstance: -1, ComputeInstance: -1}
	if p.Memory == 1<<64-1 {
		p.Memory = 0 // not reported
	}
	if gi := b.u32(processInstance); gi < 1<<16 {
		p.GPUInstance = int(gi)
	}
	if ci := b.u32(processCInst); ci < 1<<16 {
		p.ComputeInstance = int(ci)
	}
	return p
}
