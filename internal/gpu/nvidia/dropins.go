package nvidia

import "strings"

// dropins returns the drop-ins for dcm's units, and for one unit of NVIDIA, by unit name.
// systemd ignores drop-ins of units that are not installed.
func dropins() map[string]string {
	look := `# Written by dcm-generator, because there is an NVIDIA GPU on the PCI bus; see
# ` + "`man dcm-nvidia`" + `. An edit here is lost at the next daemon-reload.
`
	devices := look + `[Service]
# The driver tells of MIG to its library alone, which opens its devices: those of the
# GPUs, with a number of their own, whether the driver is loaded yet or not, and those
# that tell of instances.
DeviceAllow=char-195 rw
DeviceAllow=char-nvidia-caps rw
# With these dcm-nvml takes from itself and from the library what they do not need.
SystemCallFilter=capset seccomp
`
	return map[string]string{
		"dcm-apply.service": look + `[Unit]
# They keep the driver up and switch NVLinks on, and let go of a GPU that is to be reset
# when the driver asks them to.
After=` + strings.Join(ExemptUnits(), " ") + `
# What uses the GPUs from its first moment on is behind that.
Before=nvidia-gpu-reset.target
# Describes the MIG devices for container engines anew, if it is installed.
Wants=` + cdiRefreshUnit + `

[Service]
# SYS_ADMIN: the driver requires it where MIG is to be changed. MKNOD, CHOWN: its library
# makes the nodes of what is new, with the owner that the driver's parameters name.
CapabilityBoundingSet=CAP_SYS_ADMIN CAP_MKNOD CAP_CHOWN
`,
		"dcm.service":         devices,
		"dcm-reserve.service": devices,
		"dcm-agent.service":   devices,
		cdiRefreshUnit: look + `[Unit]
After=dcm-apply.service
`,
	}
}

// cdiRefreshUnit describes the GPUs to container engines.
const cdiRefreshUnit = "nvidia-cdi-refresh.service"

// ExemptUnits returns services that have GPUs open and do not block a change: the driver
// asks them to release the GPU, or needs them for a reset. They are never clients.
func ExemptUnits() []string {
	return []string{"nvidia-persistenced.service", "nvidia-fabricmanager.service", "nvidia-imex.service"}
}
