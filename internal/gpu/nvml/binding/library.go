package binding

import (
	"errors"
	"slices"
	"strings"

	"github.com/ebitengine/purego"

	"dcm/internal/gpu/nvml"
	"dcm/internal/worker/sandbox"
)

// soname is the SONAME of the library.
const soname = "libnvidia-ml.so.1"

// functions are the library's functions. A status has 4 bytes. A handle is a pointer in a
// structure, which is passed like a pointer.
type functions struct {
	initialise    func() uint32
	shutDown      func() uint32
	driverVersion func(text *byte, size uint32) uint32
	ownVersion    func(text *byte, size uint32) uint32

	byBusID        func(id string, device *uintptr) uint32
	pci            func(device uintptr, info *byte) uint32
	uuid           func(device uintptr, text *byte, size uint32) uint32
	serial         func(device uintptr, text *byte, size uint32) uint32
	name           func(device uintptr, text *byte, size uint32) uint32
	minor          func(device uintptr, minor *uint32) uint32
	virtualization func(device uintptr, mode *uint32) uint32
	fields         func(device uintptr, count int32, values *byte) uint32
	memory         func(device uintptr, info *byte) uint32
	memoryV2       func(device uintptr, info *byte) uint32
	utilization    func(device uintptr, rates *byte) uint32
	energy         func(device uintptr, millijoules *uint64) uint32
	compute        func(device uintptr, count *uint32, processes *byte) uint32
	graphics       func(device uintptr, count *uint32, processes *byte) uint32

	migMode    func(device uintptr, current, pending *uint32) uint32
	setMIGMode func(device uintptr, mode uint32, activation *uint32) uint32
	maxDevices func(device uintptr, count *uint32) uint32
	migDevice  func(device uintptr, index uint32, mig *uintptr) uint32
	instanceOf func(mig uintptr, id *uint32) uint32
	computeOf  func(mig uintptr, id *uint32) uint32

	profile    func(device uintptr, index uint32, info *byte) uint32
	profileV   func(device uintptr, index uint32, info *byte) uint32
	placements func(device uintptr, id uint32, placements *byte, count *uint32) uint32
	instances  func(device uintptr, id uint32, instances *byte, count *uint32) uint32
	createAt   func(device uintptr, id uint32, placement *byte, instance *uintptr) uint32
	info       func(instance uintptr, info *byte) uint32
	destroy    func(instance uintptr) uint32

	computeProfile   func(instance uintptr, index, engine uint32, info *byte) uint32
	computeInstances func(instance uintptr, id uint32, computes *byte, count *uint32) uint32
	createCompute    func(instance uintptr, id uint32, compute *uintptr) uint32
	computeInfo      func(compute uintptr, info *byte) uint32
	destroyCompute   func(compute uintptr) uint32
}

// library is a loaded libnvidia-ml.
type library struct {
	functions
	handle uintptr
	file   string
	lacks  []string
	calls  int
}

// load loads the library or the configured file, if only root could have written it.
func load(configured string, trust sandbox.Trust) (*library, error) {
	loader := sandbox.Loader{Trust: trust, Open: open, Loaded: loaded}
	name := configured
	if name == "" {
		name = soname
	}
	handle, err := loader.Load(name)
	var untrusted *sandbox.UntrustedError
	switch {
	case errors.As(err, &untrusted):
		return nil, nvml.Fail(nvml.Untrusted, "%w", err)
	case errors.Is(err, sandbox.ErrAbsent):
		return nil, nvml.Fail(nvml.NotFound, "%s not found; it is part of the nvidia driver", name)
	case err != nil:
		return nil, nvml.Fail(nvml.NotLoaded, "cannot load %s: %w", name, err)
	}
	l := &library{handle: handle, file: name}
	l.bind()
	return l, l.need(required()...)
}

func open(path string) (uintptr, error) {
	return purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
}

func loaded(name string) bool {
	const noLoad = 4 // RTLD_NOLOAD of glibc
	_, err := purego.Dlopen(name, purego.RTLD_NOW|noLoad)
	return err == nil
}

// Names of the functions.
const (
	symInit           = "nvmlInit_v2"
	symShutdown       = "nvmlShutdown"
	symDriver         = "nvmlSystemGetDriverVersion"
	symVersion        = "nvmlSystemGetNVMLVersion"
	symByBusID        = "nvmlDeviceGetHandleByPciBusId_v2"
	symPCI            = "nvmlDeviceGetPciInfo_v3"
	symUUID           = "nvmlDeviceGetUUID"
	symSerial         = "nvmlDeviceGetSerial"
	symName           = "nvmlDeviceGetName"
	symMinor          = "nvmlDeviceGetMinorNumber"
	symVirtualization = "nvmlDeviceGetVirtualizationMode"
	symFields         = "nvmlDeviceGetFieldValues"
	symMemory         = "nvmlDeviceGetMemoryInfo"
	symMemoryV2       = "nvmlDeviceGetMemoryInfo_v2"
	symUtilization    = "nvmlDeviceGetUtilizationRates"
	symEnergy         = "nvmlDeviceGetTotalEnergyConsumption"
	symCompute        = "nvmlDeviceGetComputeRunningProcesses_v3"
	symGraphics       = "nvmlDeviceGetGraphicsRunningProcesses_v3"
	symMIGMode        = "nvmlDeviceGetMigMode"
	symSetMIGMode     = "nvmlDeviceSetMigMode"
	symMaxDevices     = "nvmlDeviceGetMaxMigDeviceCount"
	symMIGDevice      = "nvmlDeviceGetMigDeviceHandleByIndex"
	symInstanceOf     = "nvmlDeviceGetGpuInstanceId"
	symComputeOf      = "nvmlDeviceGetComputeInstanceId"
	symProfile        = "nvmlDeviceGetGpuInstanceProfileInfo"
	symProfileV       = "nvmlDeviceGetGpuInstanceProfileInfoV"
	symPlacements     = "nvmlDeviceGetGpuInstancePossiblePlacements_v2"
	symInstances      = "nvmlDeviceGetGpuInstances"
	symCreateAt       = "nvmlDeviceCreateGpuInstanceWithPlacement"
	symInfo           = "nvmlGpuInstanceGetInfo"
	symDestroy        = "nvmlGpuInstanceDestroy"
	symCProfile       = "nvmlGpuInstanceGetComputeInstanceProfileInfoV"
	symCInstances     = "nvmlGpuInstanceGetComputeInstances"
	symCreateCompute  = "nvmlGpuInstanceCreateComputeInstance"
	symCInfo          = "nvmlComputeInstanceGetInfo_v2"
	symDestroyCompute = "nvmlComputeInstanceDestroy"
)

// required returns the functions without which nothing can be read.
func required() []string {
	return []string{symInit, symShutdown, symDriver, symByBusID, symMIGMode}
}

// bind resolves the functions. It replaces no missing version of a function by another one,
// which would have other structures.
func (l *library) bind() {
	f := &l.functions
	for _, s := range []struct {
		to   any
		name string
	}{
		{&f.initialise, symInit}, {&f.shutDown, symShutdown}, {&f.driverVersion, symDriver}, {&f.ownVersion, symVersion},
		{&f.byBusID, symByBusID}, {&f.pci, symPCI}, {&f.uuid, symUUID}, {&f.name, symName}, {&f.serial, symSerial}, {&f.minor, symMinor},
		{&f.virtualization, symVirtualization}, {&f.fields, symFields}, {&f.memory, symMemory}, {&f.memoryV2, symMemoryV2}, {&f.utilization, symUtilization},
		{&f.energy, symEnergy},
		{&f.compute, symCompute}, {&f.graphics, symGraphics},
		{&f.migMode, symMIGMode}, {&f.setMIGMode, symSetMIGMode}, {&f.maxDevices, symMaxDevices}, {&f.migDevice, symMIGDevice},
		{&f.instanceOf, symInstanceOf}, {&f.computeOf, symComputeOf},
		{&f.profile, symProfile}, {&f.profileV, symProfileV}, {&f.placements, symPlacements}, {&f.instances, symInstances},
		{&f.createAt, symCreateAt}, {&f.info, symInfo}, {&f.destroy, symDestroy},
		{&f.computeProfile, symCProfile}, {&f.computeInstances, symCInstances}, {&f.createCompute, symCreateCompute},
		{&f.computeInfo, symCInfo}, {&f.destroyCompute, symDestroyCompute},
	} {
		addr, err := purego.Dlsym(l.handle, s.name)
		if err != nil {
			l.lacks = append(l.lacks, s.name)
			continue
		}
		purego.RegisterFunc(s.to, addr)
	}
}

// need returns an error if the library lacks one of the functions.
func (l *library) need(names ...string) error {
	var lacks []string
	for _, n := range names {
		if slices.Contains(l.lacks, n) {
			lacks = append(lacks, n)
		}
	}
	if lacks != nil {
		return nvml.Fail(nvml.Unusable, "%s lacks %s", l.file, strings.Join(lacks, ", "))
	}
	return nil
}

// call calls a function if the library has it.
func (l *library) call(name string, f func() uint32) error {
	if err := l.need(name); err != nil {
		return err
	}
	l.calls++
	if status := f(); status != nvml.StatusSuccess {
		return nvml.FailStatus(status, "%s", name)
	}
	return nil
}

// statusOf returns the library's status in an error; 0 if there is none.
func statusOf(err error) uint32 {
	var f *nvml.Failure
	if errors.As(err, &f) {
		return f.Status
	}
	return 0
}

// kindOf returns the kind of an error; "" if it has none.
func kindOf(err error) nvml.Kind {
	var f *nvml.Failure
	if errors.As(err, &f) {
		return f.Kind
	}
	return ""
}
