package leases

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/linux/cdi"
	"dcm/internal/linux/systemd"
)

// refreshTimeout is how long a lease waits for a specification of NVIDIA's that is being written.
const refreshTimeout = 20 * time.Second

// specifications are the specifications of devices for container engines.
type specifications interface {
	// Names returns the names that an engine finds.
	Names() cdi.Names
	// Refreshed waits until NVIDIA's service has written its specification. It returns why the specification may
	// not be up to date, "" if the service is not installed.
	Refreshed(ctx context.Context) (why string)
}

// containerDevices returns the names of partitions for container engines. It returns only names that an engine
// finds: NVIDIA's own, since its specification has the libraries too, and otherwise dcm's. The note says which
// partitions have none, or lack NVIDIA's libraries.
func containerDevices(ctx context.Context, s specifications, partitions []string, parts []runstate.Part) (devices []string, note string) {
	found := s.Names()
	lacks := func() (out []string) {
		for _, p := range ownParts(partitions, parts) {
			if name := nvidiaName(p); name != "" && found[name] == nil {
				out = append(out, p.Name)
			}
		}
		return out
	}
	why := ""
	if len(lacks()) > 0 {
		if why = s.Refreshed(ctx); why != "" {
			found = s.Names()
		}
	}
	var none []string
	for _, name := range partitions {
		own := cdi.Kind + "=" + name
		if list := ownParts([]string{name}, parts); len(list) > 0 && found[nvidiaName(list[0])] != nil {
			own = nvidiaName(list[0])
		}
		if found[own] == nil {
			none = append(none, name)
			continue
		}
		devices = append(devices, own)
	}
	switch {
	case len(none) > 0:
		note = fmt.Sprintf("no CDI specification has %s, which %s omits\nhint: journalctl -u dcm-apply -u 'dcm-make@*' shows why", strings.Join(none, ", "), devicesVariable)
	case why != "" && len(lacks()) > 0:
		note = fmt.Sprintf("containers get the device nodes of %s without NVIDIA's libraries: %s\nhint: systemctl status %s", strings.Join(lacks(), ", "), why, cdi.NVIDIAUnit)
	}
	return devices, note
}

// nvidiaName returns the name in NVIDIA's own specification, "" for a partition of another vendor.
func nvidiaName(p runstate.Part) string {
	if !strings.HasPrefix(p.Kind, "nvidia ") || p.UUID == "" {
		return ""
	}
	return cdi.NVIDIAKind + "=" + p.UUID
}

// hostSpecifications are those of this host.
type hostSpecifications struct{ host *host.Host }

func (h hostSpecifications) Names() cdi.Names {
	var dirs []string
	for _, dir := range cdi.Directories() {
		dirs = append(dirs, h.host.Path(dir))
	}
	return cdi.ReadNames(dirs, yaml.Unmarshal)
}

func (h hostSpecifications) Refreshed(ctx context.Context) (why string) {
	if there, masked := systemd.Installed(h.host.Path(), cdi.NVIDIAUnit); !there || masked {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	conn, err := h.host.DialToWait(ctx)
	if err != nil {
		return "cannot query systemd: " + err.Error()
	}
	defer conn.Close()
	units, err := conn.Units.Settle(ctx, []string{cdi.NVIDIAUnit}, systemd.Unit.Settled)
	switch {
	case ctx.Err() != nil:
		return fmt.Sprintf("%s has not ended after %s", cdi.NVIDIAUnit, refreshTimeout)
	case err != nil:
		return err.Error()
	case len(units) == 1 && units[0].Active == "failed":
		return cdi.NVIDIAUnit + " has failed"
	}
	return cdi.NVIDIAUnit + " has not written them to NVIDIA's CDI specification"
}
