package gather

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"dcm/internal/engine/apply"
	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/frontends/status"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// Inventory reads the GPUs and compares them with the profile. The details of partitions take long to
// read. Inventory copies them from before if the partitions are the same. Otherwise it reads them only
// if all is set.
func Inventory(ctx context.Context, h *host.Host, cfg *config.Config, before status.Inventory, all bool) (status.Inventory, error) {
	devices, unread := host.OpenNode(h, nil).Devices(ctx) // from sysfs, if possible
	if unread != nil && len(devices) == 0 {
		return status.Inventory{}, unread
	}
	return inventory(ctx, h, cfg, devices, unread, before, all)
}

// InventoryOf is [Inventory] for devices that were just read. It does not read details of partitions.
func InventoryOf(ctx context.Context, h *host.Host, cfg *config.Config, devices []gpu.Device, before status.Inventory) (status.Inventory, error) {
	return inventory(ctx, h, cfg, devices, nil, before, false)
}

func inventory(ctx context.Context, h *host.Host, cfg *config.Config, devices []gpu.Device, unread error, before status.Inventory, all bool) (status.Inventory, error) {
	var s status.Inventory
	var d apply.Difference
	if cfg != nil {
		s.Profiles = cfg.Available(gpu.Partitionable(devices))
	}
	if cfg != nil && cfg.Selected != "" {
		var unfit error
		d, unfit = apply.Compare(devices, cfg.Profile)
		for _, err := range []error{unread, unfit} {
			if err != nil {
				e := apply.Explain(err)
				s.Problems = append(s.Problems, status.Problem{State: status.NotOn, Text: e.Text, Hint: e.Hint})
			}
		}
	}
	if short := host.Shortage(h, gpu.Partitionable(devices)); short != nil {
		s.Problems = append(s.Problems, status.Problem{State: status.Nodeless, Text: short.Text, Hint: short.Hint})
	}
	if p := FalseNode(h); p != nil {
		s.Problems = append(s.Problems, *p)
	}
	for _, why := range host.Claims(h).Failures() {
		s.Problems = append(s.Problems, status.Problem{State: status.Faulty, Text: why, Hint: "dcm retries; dcm holders lists the processes that have a GPU open"})
	}
	s.GPUs = gpus(devices, d.Want)
	addHeldMemory(h, cfg, &s)
	s.Parts = parts(devices)
	if !copyDetails(s.Parts, before.Parts) && all {
		unread = errors.Join(unread, host.OpenNode(h, nil).ReadDetails(ctx, devices))
		s.Parts = parts(devices)
	}
	return s, unread
}

// copyDetails copies the details from before. It returns false if the partitions are not the same.
func copyDetails(now, before []status.Part) bool {
	same := func(a, b status.Part) bool {
		return a.Name == b.Name && a.Mode == b.Mode && a.RenderMinor == b.RenderMinor && b.DriverID != ""
	}
	if !slices.EqualFunc(now, before, same) {
		return false
	}
	copy(now, before)
	return true
}

func gpus(devices []gpu.Device, want partition.Layout) []status.GPU {
	var out []status.GPU
	index := make(map[partition.Vendor]int) // counts the GPUs of each vendor
	for _, d := range devices {
		g := status.GPU{
			Index: -1, Address: string(d.Address), Vendor: d.Vendor.Name(), Model: d.Model, Why: d.SkipReason,
			Mode: Shape(d.Shape()), Want: Shape(want.Shapes[d.Address]), Skipped: want.Skipped[d.Address],
			Offers:   status.Offers{Compute: texts(d.AvailableCompute), Memory: texts(d.AvailableMemory)},
			Slots:    slots(d),
			ReadOnly: d.ReadOnly, Nodes: d.RenderNodes,
			Name: d.Name, Serial: d.Serial, UUID: d.UUID, UniqueID: d.UniqueID, NUMA: d.NUMA,
			Driver: d.Driver, DriverVersion: d.DriverVersion, Card: d.Card, Source: d.Source,
		}
		if m, known := partition.LookupModel(d.Vendor, d.Device); known {
			g.Guest = m.Virtual
		}
		if want.Dynamic[d.Address] && d.MIG != nil {
			slots, longest := d.FreeRuns()
			g.Free = &status.FreeSlots{Slots: slots, Longest: longest}
		}
		if d.HasMadeMode() {
			g.Rest = string(d.MadeMode.Rest)
		}
		if d.Hive != 0 {
			g.Hive = fmt.Sprintf("%016x", d.Hive)
		}
		if d.SkipReason == "" {
			g.Index, g.Partitions = index[d.Vendor], d.Partitions()
			index[d.Vendor]++
		}
		out = append(out, g)
	}
	return out
}

// Shape converts a shape for the status.
func Shape(s partition.Shape) status.Shape {
	if s.MIG == nil {
		return status.Shape{Compute: string(s.Compute), Memory: string(s.Memory), Allocation: string(s.Allocation), Isolation: string(s.Isolation)}
	}
	if names := s.MIG.Names(); len(names) > 0 {
		return status.Shape{Slices: names}
	}
	return status.Shape{Whole: s.String()}
}

func parts(devices []gpu.Device) []status.Part {
	var out []status.Part
	for _, d := range devices {
		var bytes uint64
		units := 0
		for _, p := range d.Parts {
			bytes += p.Bytes
			units += p.CUs
		}
		for _, p := range d.Parts {
			if d.SkipReason != "" {
				break
			}
			one := status.Part{
				Name: string(d.Address) + "-" + strconv.Itoa(p.Index), GPU: string(d.Address), Index: p.Index, Mode: d.Shape().String(),
				RenderNode: p.RenderNode(), RenderMinor: p.Minor, DriverID: p.ID, UUID: p.UUID, NUMA: d.NUMA,
				Domain: d.Memory.Domain(p.Index, d.Partitions()), Memory: p.Bytes, ComputeUnits: p.CUs,
			}
			if p.Profile != "" {
				one.Mode = p.Profile
			}
			if p.Card != "" {
				one.Card = "/dev/dri/" + p.Card
			}
			if units > 0 {
				one.ComputeShare = float64(p.CUs) / float64(units)
			}
			if bytes > 0 {
				one.MemoryShare = float64(p.Bytes) / float64(bytes)
			}
			out = append(out, one)
		}
	}
	return out
}

func texts[S ~string](items []S) []string {
	out := make([]string, len(items))
	for i, s := range items {
		out[i] = string(s)
	}
	return out
}

// AddNames adds the names, serial numbers and versions that only the vendor's library reports.
func AddNames(ctx context.Context, h *host.Host, cfg *config.Config, a *status.Account) error {
	node := host.OpenNode(h, cfg)
	devices, err := node.Devices(ctx)
	if err != nil && len(devices) == 0 {
		return nil // the account has the error
	}
	err = node.Enrich(ctx, devices)
	for i := range a.GPUs {
		g := &a.GPUs[i]
		for _, d := range devices {
			if string(d.Address) == g.Address && !d.AccessDenied {
				g.Name, g.Serial, g.UUID, g.DriverVersion, g.Source = d.Name, d.Serial, d.UUID, d.DriverVersion, d.Source
			}
		}
	}
	return err
}
