package configure

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"dcm/internal/app/cli/bundle"
	"dcm/internal/app/cli/console"
	"dcm/internal/app/cli/query"
	"dcm/internal/app/cli/slurmcmd"
	"dcm/internal/app/doctor"
	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/status/gather"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/cdi"
	"dcm/internal/text"
)

// checkHost prints the findings of the host checks, and their counts last.
func checkHost(ctx context.Context, h *host.Host, con *console.Console, cfg *config.Config) error {
	r := inspect(ctx, h, con, cfg)
	for _, f := range r.Findings {
		text := runstate.WithHint(f.String(), f.Hint)
		if f.Level == doctor.Error {
			con.Note(console.Indent(text))
		} else {
			con.Warn(text)
		}
	}
	con.Printf("Host checks: %s.\n", r.Summary())
	return hostError(r)
}

// answerHost prints the result of the host checks as JSON.
func answerHost(ctx context.Context, h *host.Host, con *console.Console, cfg *config.Config) error {
	r := inspect(ctx, h, con, cfg)
	if err := con.Answer(r); err != nil {
		return err
	}
	return hostError(r)
}

func inspect(ctx context.Context, h *host.Host, con *console.Console, cfg *config.Config) doctor.Report {
	exclusive := func(r config.Reservation) bool { return r.Exclusive }
	services, processes, err := query.Unrestarted(ctx, h, cfg)
	if err != nil {
		con.Warn(err.Error())
	}
	names := make([]string, len(processes))
	for i, p := range processes {
		names[i] = fmt.Sprintf("process %d (%s)", p.PID, p.Command)
	}
	var guests []string
	devices, _ := host.OpenNode(h, cfg).Devices(ctx) // a GPU that cannot be read is no finding
	for _, d := range devices {
		if d.Guest {
			guests = append(guests, string(d.Address))
		}
	}
	var held []doctor.OnGPU
	for _, m := range gather.HeldMemory(h, cfg) {
		held = append(held, doctor.OnGPU{GPU: string(m.GPU), Text: text.GiB(m.Bytes)})
	}
	plugin, err := slurmcmd.Scheduler{Host: h}.Unconfined(ctx)
	if err != nil {
		con.Warn(err.Error())
	}
	facts := doctor.Config{
		Slurm:     plugin,
		Held:      held,
		Kernel:    kernelLines(ctx, h, devices),
		Guests:    guests,
		Clients:   host.Clients(h, cfg),
		Exclusive: slices.ContainsFunc(cfg.Reservations, exclusive),
		Included:  cfg.Discover == config.Include,
		Reload:    cfg.ReloadDriver,
		Dynamic:   cfg.Dynamic,
		Services:  services,
		Processes: names,
		CDI:       describable(ctx, h, devices),
	}
	addPartitions(h, cfg, devices, &facts)
	return doctor.Run(h.Path(), facts)
}

// kernelLogTimeout limits the search in the kernel log, which has no index for its text.
const kernelLogTimeout = 10 * time.Second

// kernelLines returns the kernel's lines on the GPUs of this boot, if the host has a GPU of AMD and the caller may
// read them.
func kernelLines(ctx context.Context, h *host.Host, devices []gpu.Device) []string {
	if !h.Here() || !slices.ContainsFunc(devices, func(d gpu.Device) bool { return d.Vendor == partition.AMD }) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, kernelLogTimeout)
	defer cancel()
	text, _ := bundle.KernelLines(ctx, h, time.Time{}, time.Time{}) // a log that cannot be read is no finding
	return strings.Split(string(text), "\n")
}

// describable returns what NVIDIA's service should describe to container engines. Without systemd it has not failed.
func describable(ctx context.Context, h *host.Host, devices []gpu.Device) (out doctor.CDI) {
	gpus := 0
	for _, d := range devices {
		if d.Vendor != partition.NVIDIA || d.SkipReason != "" {
			continue
		}
		gpus++
		if d.UUID != "" {
			out.GPUs = append(out.GPUs, d.UUID)
		}
		for _, p := range d.Parts {
			if p.UUID != "" {
				out.UUIDs = append(out.UUIDs, p.UUID)
			}
		}
	}
	out.Empty = gpus > 0 && len(out.UUIDs) == 0
	conn, err := h.Dial(ctx)
	if err != nil {
		return out
	}
	defer conn.Close()
	failed, err := conn.Units.Failed(ctx, []string{cdi.NVIDIAUnit})
	out.Failed = err == nil && len(failed) > 0
	return out
}

func hostError(r doctor.Report) error {
	if r.Errors == 0 {
		return nil
	}
	return fmt.Errorf("host checks: %s; see dcm-check(7)", r.Summary())
}
