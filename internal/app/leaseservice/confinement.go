package leaseservice

import (
	"syscall"

	"dcm/internal/linux/systemd"
)

// filter is the value of SystemCallFilter= and RestrictAddressFamilies=: (bas) of org.freedesktop.systemd1(5).
type filter struct {
	Allow bool
	Names []string
}

// confinement returns the sandbox of the transient services of leases. It is that of dcm-gate.service, except that
// terminals can be opened.
func confinement() []systemd.Property {
	out := []systemd.Property{
		{Name: "CapabilityBoundingSet", Value: uint64(0)},
		{Name: "ProtectSystem", Value: "strict"},
		{Name: "ProtectHome", Value: "yes"},
		{Name: "DevicePolicy", Value: "closed"},
		{Name: "RestrictAddressFamilies", Value: filter{true, []string{"AF_UNIX"}}},
		{Name: "RestrictNamespaces", Value: uint64(0)}, // no kind of namespace
		{Name: "SystemCallArchitectures", Value: []string{"native"}},
		{Name: "SystemCallFilter", Value: filter{true, []string{"@system-service"}}},
		{Name: "SystemCallFilter", Value: filter{false, []string{"@privileged", "@resources"}}},
		{Name: "SystemCallErrorNumber", Value: int32(syscall.EPERM)},
		{Name: "MemoryMax", Value: uint64(64 << 20)},
		{Name: "TasksMax", Value: uint64(64)},
	}
	for _, name := range []string{
		"NoNewPrivileges", "PrivateTmp", "PrivateNetwork", "ProtectKernelTunables", "ProtectControlGroups", "ProtectKernelModules",
		"ProtectKernelLogs", "ProtectClock", "ProtectHostname", "RestrictRealtime", "RestrictSUIDSGID", "LockPersonality", "MemoryDenyWriteExecute",
	} {
		out = append(out, systemd.Property{Name: name, Value: true})
	}
	return out
}
