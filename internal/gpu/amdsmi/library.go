package amdsmi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/ebitengine/purego"
	"golang.org/x/sys/unix"

	"dcm/internal/worker/sandbox"
)

// bufferSize is the size of every buffer for the library. The structures have less than 1
// KiB but grow with each version.
const bufferSize = 64 << 10

// calls are the functions of every supported version. A status has 4 bytes; a handle is a
// pointer.
type calls struct {
	initialise  func(flags uint64) uint32
	shutDown    func() uint32
	version     func(version *byte) uint32
	sockets     func(count *uint32, handles *byte) uint32
	processors  func(socket uintptr, count *uint32, handles *byte) uint32
	kind        func(processor uintptr, kind *uint32) uint32
	bdf         func(processor uintptr, bdf *uint64) uint32
	readCompute func(processor uintptr, text *byte, size uint32) uint32
	readMemory  func(processor uintptr, text *byte, size uint32) uint32
}

// extras are functions that a version may lack; they are nil then. Those that set modes are deprecated since 27.0,
// and their removal is announced (amdsmi.h).
type extras struct {
	setCompute    func(processor uintptr, number uint32) uint32
	setMemory     func(processor uintptr, number uint32) uint32 // of older versions, also for memory modes
	setMemoryMode func(processor uintptr, number uint32) uint32
	uuid          func(processor uintptr, size *uint32, text *byte) uint32
	asic          func(processor uintptr, info *byte) uint32
	driver        func(processor uintptr, info *byte) uint32
	kfd           func(processor uintptr, info *byte) uint32
}

// library is a loaded libamd_smi.
type library struct {
	handle uintptr
	file   string
	calls
	extras
}

// load loads the first candidate that exists, if only root could have written it.
func load(candidates []string, trust sandbox.Trust) (*library, error) {
	loader := sandbox.Loader{Trust: trust, Open: open, Loaded: loaded}
	for _, name := range candidates {
		handle, err := loader.Load(name, drm()...)
		var untrusted *sandbox.UntrustedError
		switch {
		case err == nil:
			return bind(handle, name)
		case errors.As(err, &untrusted):
			return nil, fail(Untrusted, "%w", err)
		case !errors.Is(err, sandbox.ErrAbsent):
			return nil, fail(NotLoaded, "cannot load %s: %w", name, err)
		}
	}
	if len(candidates) == 1 {
		return nil, fail(NotFound, "there is no %s", candidates[0])
	}
	return nil, fail(NotFound, "no libamd_smi found: tried %s", strings.Join(candidates, ", "))
}

// drm lists the libraries that libamd_smi loads at run time.
func drm() []string { return []string{"libdrm.so.2", "libdrm_amdgpu.so.1"} }

func open(path string) (uintptr, error) {
	return purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
}

func loaded(name string) bool {
	const noLoad = 4 // RTLD_NOLOAD of glibc
	_, err := purego.Dlopen(name, purego.RTLD_NOW|noLoad)
	return err == nil
}

func bind(handle uintptr, name string) (*library, error) {
	l := &library{handle: handle, file: name}
	l.file = l.fileOf("amdsmi_init", name)
	required := []struct {
		to     any
		symbol string
	}{
		{&l.initialise, "amdsmi_init"},
		{&l.shutDown, "amdsmi_shut_down"},
		{&l.version, "amdsmi_get_lib_version"},
		{&l.sockets, "amdsmi_get_socket_handles"},
		{&l.processors, "amdsmi_get_processor_handles"},
		{&l.kind, "amdsmi_get_processor_type"},
		{&l.bdf, "amdsmi_get_gpu_device_bdf"},
		{&l.readCompute, "amdsmi_get_gpu_compute_partition"},
		{&l.readMemory, "amdsmi_get_gpu_memory_partition"},
	}
	var missing []string
	for _, r := range required {
		if !l.resolve(r.to, r.symbol) {
			missing = append(missing, r.symbol)
		}
	}
	if missing != nil {
		return l, fail(Unusable, "%s lacks %s", l.file, strings.Join(missing, ", "))
	}
	l.resolve(&l.setCompute, symSetCompute)
	l.resolve(&l.setMemory, "amdsmi_set_gpu_memory_partition")
	l.resolve(&l.setMemoryMode, symMemoryMode)
	l.resolve(&l.uuid, "amdsmi_get_gpu_device_uuid")
	l.resolve(&l.asic, "amdsmi_get_gpu_asic_info")
	l.resolve(&l.driver, "amdsmi_get_gpu_driver_info")
	l.resolve(&l.kfd, symKFDInfo)
	return l, nil
}

// canSetCompute returns an error if the library has no function that sets compute modes.
func (l *library) canSetCompute() error {
	if l.setCompute == nil {
		return fail(Unusable, "%s lacks %s", l.file, symSetCompute)
	}
	return nil
}

// resolve sets the function to to the symbol. It reports whether the library has it.
func (l *library) resolve(to any, symbol string) bool {
	addr, err := purego.Dlsym(l.handle, symbol)
	if err != nil {
		return false
	}
	purego.RegisterFunc(to, addr)
	return true
}

func (l *library) has(symbol string) bool {
	_, err := purego.Dlsym(l.handle, symbol)
	return err == nil
}

// fileOf returns the file with the symbol, which is what the dynamic loader found for the
// name.
func (l *library) fileOf(symbol, name string) string {
	addr, err := purego.Dlsym(l.handle, symbol)
	if err != nil {
		return name
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return name
	}
	if file := mappedFile(string(maps), uint64(addr)); file != "" {
		return file
	}
	return name
}

// buildOffset is the offset of the version text in amdsmi_version_t of every version. The
// numbers before it have changed their meaning.
const buildOffset = 16

// readVersion returns the version that the library reports. The library must be initialised.
func (l *library) readVersion() (Version, error) {
	b := make([]byte, bufferSize)
	if status := l.version(&b[0]); status != 0 {
		return Version{}, failStatus(Unusable, status, "amdsmi_get_lib_version of %s", l.file)
	}
	text, err := foreignText(uintptr(binary.NativeEndian.Uint64(b[buildOffset:])))
	if err != nil {
		return Version{}, fail(UnknownVersion, "cannot read the version of %s: %w", l.file, err)
	}
	v, err := ParseVersion(text)
	if err != nil {
		return Version{}, fail(UnknownVersion, "unknown version of %s: %w", l.file, err)
	}
	return v, nil
}

// foreignText reads a C string of the library. It uses a system call, so that an invalid
// pointer is an error and not a crash.
func foreignText(addr uintptr) (string, error) {
	if addr == 0 {
		return "", errors.New("null pointer")
	}
	var out []byte
	for b := make([]byte, 1); len(out) < 128; addr++ {
		local := []unix.Iovec{{Base: &b[0], Len: 1}}
		remote := []unix.RemoteIovec{{Base: addr, Len: 1}}
		if _, err := unix.ProcessVMReadv(os.Getpid(), local, remote, 0); err != nil {
			return "", fmt.Errorf("at %#x: %w", addr, err)
		}
		if b[0] == 0 {
			return string(out), nil
		}
		out = append(out, b[0])
	}
	return "", fmt.Errorf("%q… has no end", out[:16])
}

// textIn returns the C string at offset of a buffer; "" if it is not printable.
func textIn(b []byte, offset int) string {
	b = b[offset:]
	end := bytes.IndexByte(b, 0)
	if end < 0 || end > 256 {
		return ""
	}
	for _, c := range b[:end] {
		if c < ' ' || c > '~' {
			return ""
		}
	}
	return strings.TrimSpace(string(b[:end]))
}
