package nvidia

import (
	"strings"

	"dcm/internal/linux/cdi"
)

// dropins returns the drop-ins for dcm's units, and for one unit of NVIDIA, by unit name.
// systemd ignores drop-ins of units that are not installed.
func dropins() map[string]string {
	header := `# Written by dcm-generator for the NVIDIA GPU on the PCI bus, see dcm-nvidia(7).
# Changes to this file are lost at the next daemon-reload.
`
	devices := header + `[Service]
# Nodes of the GPUs and of MIG capabilities, for the library. The number 195 is fixed.
DeviceAllow=char-195 rw
DeviceAllow=char-nvidia-caps rw
# dcm-nvml drops its own and the library's privileges with these calls.
SystemCallFilter=capset seccomp
`
	changes := header + `[Unit]
# If installed, it describes the new MIG devices to container engines.
Wants=` + cdi.NVIDIAUnit + `

[Service]
# SYS_ADMIN: the driver requires it to change MIG. MKNOD, CHOWN: the library creates the
# nodes of new instances, with the owner from the driver's parameters.
CapabilityBoundingSet=CAP_SYS_ADMIN CAP_MKNOD CAP_CHOWN
`
	return map[string]string{
		"dcm-apply.service": changes + `
[Unit]
# These services keep the driver loaded and enable NVLink. They close a GPU before its reset.
After=` + strings.Join(ExemptUnits(), " ") + `
# Early users of the GPUs start after this target.
Before=nvidia-gpu-reset.target
`,
		"dcm-change.service": changes,
		"dcm-make@.service": changes + `
[Unit]
# The service describes the new instance. A lease waits for it.
Before=` + cdi.NVIDIAUnit + `
`,
		"dcm.service":         devices,
		"dcm-reserve.service": devices,
		"dcm-agent.service":   devices,
		cdi.NVIDIAUnit: header + `[Unit]
After=dcm-apply.service dcm-change.service
`,
	}
}

// ExemptUnits returns services that have GPUs open and do not block a change: the driver
// asks them to release the GPU, or needs them for a reset. They are never clients.
func ExemptUnits() []string {
	return []string{"nvidia-persistenced.service", "nvidia-fabricmanager.service", "nvidia-imex.service"}
}
