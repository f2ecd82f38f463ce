package amdsmi

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// describe reads the facts about one GPU. A fact that cannot be read is a note, since the
// others are still useful.
func (l *library) describe(p processor, n Numbering) GPU {
	g := GPU{Address: p.address}
	note := func(fact string, err error) {
		if err != nil {
			g.Notes = append(g.Notes, fact+": "+err.Error())
		}
	}
	var err error
	g.Compute, err = l.computeMode(p.handle)
	note("compute mode", err)
	g.Memory, err = l.memoryMode(p.handle)
	note("memory mode", err)
	g.UUID, err = l.readUUID(p.handle)
	note("uuid", err)
	note("asic", l.readAsic(p.handle, n.asic, &g))
	note("driver", l.readDriver(p.handle, n.driver, &g))
	return g
}

func (l *library) readUUID(handle uintptr) (string, error) {
	if l.uuid == nil {
		return "", fmt.Errorf("the library lacks the function")
	}
	b := make([]byte, bufferSize)
	size := uint32(bufferSize)
	if status := l.uuid(handle, &size, &b[0]); status != 0 {
		return "", failStatus(Refused, status, "amdsmi_get_gpu_device_uuid")
	}
	return textIn(b, 0), nil
}

func (l *library) readAsic(handle uintptr, at *asicLayout, g *GPU) error {
	if l.asic == nil {
		return fmt.Errorf("the library lacks the function")
	}
	b := make([]byte, bufferSize)
	if status := l.asic(handle, &b[0]); status != 0 {
		return failStatus(Refused, status, "amdsmi_get_gpu_asic_info")
	}
	g.Name = textIn(b, 0)
	if at == nil {
		return fmt.Errorf("only the name is known: unknown layout of this version")
	}
	g.Vendor = uint16(binary.NativeEndian.Uint32(b[at.vendor:]))
	g.Device = uint16(binary.NativeEndian.Uint64(b[at.device:]))
	g.Serial = serial(textIn(b, at.serial))
	return nil
}

// serial returns "" for values that mean a missing serial number.
func serial(s string) string {
	if strings.Trim(strings.TrimPrefix(strings.ToLower(s), "0x"), "0") == "" || s == "N/A" {
		return ""
	}
	return s
}

func (l *library) readDriver(handle uintptr, at *driverLayout, g *GPU) error {
	if l.driver == nil {
		return fmt.Errorf("the library lacks the function")
	}
	if at == nil {
		return fmt.Errorf("unknown layout of this version")
	}
	b := make([]byte, bufferSize)
	if status := l.driver(handle, &b[0]); status != 0 {
		return failStatus(Refused, status, "amdsmi_get_gpu_driver_info")
	}
	g.Driver = textIn(b, at.name)
	g.DriverVersion = textIn(b, at.version)
	return nil
}
