package gpu

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"dcm/internal/gpu/partition"
	"dcm/internal/linux/sysfs"
	"dcm/internal/sanitize"
)

// Module is a kernel module in sysfs (Documentation/ABI/testing/sysfs-module).
type Module struct{ Sys, Name string }

func (m Module) file(name string) string { return filepath.Join(m.Sys, "module", m.Name, name) }

// Loaded reports whether the module is loaded, or still being loaded.
func (m Module) Loaded() bool {
	_, err := os.Stat(m.file(""))
	return err == nil
}

// State returns "coming", "live" or "going"; "" if the module is not loaded.
func (m Module) State() string {
	state, _ := sysfs.Optional(m.file("initstate"))
	return state
}

// UseCount reads the use count of the module and what in the kernel uses it: other modules,
// and a text console on one of its GPUs. ok is false for a driver that is built into the
// kernel, which has no count.
func (m Module) UseCount() (count int, modules []string, ok bool) {
	text, err := sysfs.Read(m.file("refcnt"))
	if err != nil {
		return 0, nil, false
	}
	if count, err = strconv.Atoi(text); err != nil {
		return 0, nil, false
	}
	entries, _ := os.ReadDir(m.file("holders"))
	for _, e := range entries {
		modules = append(modules, sanitize.Text(e.Name()))
	}
	if m.HasConsole() {
		modules = append(modules, "the text console (see /sys/class/vtconsole)")
	}
	return count, modules, true
}

// HasConsole reports whether the kernel's text console is on a GPU of the driver. It then
// holds the module (drivers/video/fbdev/core/fbcon.c, fbcon_open), without being listed. The
// console is on the first framebuffer, unless the kernel command line says otherwise.
func (m Module) HasConsole() bool {
	driver, err := filepath.EvalSymlinks(filepath.Join(m.Sys, "class/graphics/fb0/device/driver/module"))
	if err != nil || filepath.Base(driver) != m.Name {
		return false
	}
	consoles, _ := filepath.Glob(filepath.Join(m.Sys, "class/vtconsole/vtcon*"))
	for _, c := range consoles {
		name, _ := sysfs.Optional(filepath.Join(c, "name"))
		bound, _ := sysfs.Optional(filepath.Join(c, "bind"))
		if strings.HasSuffix(name, "frame buffer device") && bound == "1" {
			return true
		}
	}
	return false
}

// Progress returns a text that changes when GPUs of the driver come up: the module's state,
// and which of the attributes each GPU has. live is true when the module has probed its
// devices.
func (m Module) Progress(gpus []partition.Address, attributes ...string) (fingerprint string, live bool) {
	state := m.State()
	var b strings.Builder
	b.WriteString(state)
	for _, a := range gpus {
		for _, name := range attributes {
			_, err := os.Lstat(AttributePath(m.Sys, a, name))
			fmt.Fprint(&b, err == nil)
		}
	}
	return b.String(), state == "live"
}
