package runstate

import (
	"fmt"
	"strings"

	"dcm/internal/gpu/partition"
)

// Holder is a process that has a GPU's device open.
type Holder struct {
	PID     int      `json:"pid"`
	Command string   `json:"command"`
	Unit    string   `json:"unit,omitempty"` // the system unit; "" if there is none
	Devices []string `json:"devices"`        // "/dev/kfd", "/dev/dri/renderD128"
	// Attached are the GPUs that the process uses through /dev/kfd; empty if they are unknown,
	// or if the driver does not distinguish them.
	Attached []partition.Address `json:"attached"`
	// Lessee is the owner of the lease that the process belongs to; "" if it belongs to none.
	// The process may have no partition of the lease open yet.
	Lessee string `json:"lessee,omitempty"`
	// Leased are the nodes of the lease; empty if they are unknown.
	Leased []string `json:"leased"`
}

func (h Holder) String() string {
	unit := h.Unit
	if unit == "" {
		unit = "no unit"
	}
	if h.Lessee != "" {
		unit += ", a lease of " + h.Lessee
	}
	return fmt.Sprintf("%s (pid %d, %s)", h.Command, h.PID, unit)
}

// devices lists at most four devices: a process that uses a whole node has 64 partitions open.
func (h Holder) devices() string {
	const most = 3
	if more := len(h.Devices) - most; more > 1 {
		return fmt.Sprintf("%s and %d more devices", strings.Join(h.Devices[:most], ", "), more)
	}
	return strings.Join(h.Devices, ", ")
}

// InUse returns the error of a run that these processes prevent.
func InUse(holders []Holder) *Error {
	const most = 3
	var names []string
	for _, h := range holders[:min(most, len(holders))] {
		if len(h.Devices) == 0 {
			names = append(names, fmt.Sprintf("%s may open partitions", h))
			continue
		}
		names = append(names, fmt.Sprintf("%s has %s open", h, h.devices()))
	}
	if more := len(holders) - most; more > 0 {
		names = append(names, fmt.Sprintf("%d more (dcm holders lists them)", more))
	}
	return &Error{
		Text:      "GPUs are in use: " + strings.Join(names, "; "),
		Hint:      inUseHint(holders) + Again,
		Transient: true,
	}
}

// inUseHint proposes [clients] only for services, since systemd cannot start a scope or a
// session again.
func inUseHint(holders []Holder) string {
	leases, services := true, false
	for _, h := range holders {
		leases = leases && h.Lessee != ""
		services = services || strings.HasSuffix(h.Unit, ".service")
	}
	switch {
	case leases:
		return "wait for the end of these leases, or end them with dcm lease release"
	case services:
		return "stop these processes, or list their services under [clients] so that they are restarted around a change"
	}
	return "stop these processes"
}
