package nodemodel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/client"
	"dcm/internal/app/leaseservice"
	"dcm/internal/app/plan"
	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/exitcode"
	"dcm/internal/frontends/dbusapi"
	"dcm/internal/frontends/status/gather"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/gpu/record"
	"dcm/internal/leases/lease"
	"dcm/internal/leases/placement"
)

// Node is where a choice is simulated: on this host, or on a kind of node with a profile.
type Node struct {
	Model   string // "" for this host
	Profile string // of the node; "" for the selected one
	Free    string // what is free there; "" for what is, or on a kind of node for all
}

// Hypothetical reports whether the choice is not for this host in its current state.
func (s Node) Hypothetical() bool { return s.Model != "" || s.Free != "" }

// Allocations returns the partitions with their holders.
func (s Node) Allocations(ctx context.Context, h *host.Host) ([]lease.Allocation, error) {
	if s.Model == "" {
		return leaseservice.Allocations(ctx, h)
	}
	gpus, err := record.Node(s.Model)
	if err != nil {
		return nil, exitcode.With(exitcode.Usage, err)
	}
	cfg, err := h.Config()
	if err != nil {
		return nil, err
	}
	var named []string
	if s.Profile != "" {
		named = []string{s.Profile}
	}
	p, err := plan.ChooseOn(cfg, gpus, named...)
	if err != nil {
		return nil, err
	}
	after, _, err := Outcome(p, gpus)
	if err != nil {
		return nil, err
	}
	return freeAllocations(after), nil
}

// Outcome returns the GPUs after the profile is applied, and the steps.
func Outcome(p partition.Profile, gpus []partition.GPU) ([]partition.GPU, partition.Steps, error) {
	layout, err := p.Layout(gpus)
	if err != nil {
		return nil, nil, err
	}
	steps, err := partition.Plan(layout, gpus)
	if err != nil {
		return nil, nil, err
	}
	return partition.Forecast(gpus, steps), steps, nil
}

// freeAllocations returns the partitions of the GPUs without holders. The first half of the
// GPUs is at NUMA node 0, the others at 1, as on most servers.
func freeAllocations(gpus []partition.GPU) []lease.Allocation {
	var out []lease.Allocation
	for i, g := range gpus {
		kinds := g.Kinds()
		n := len(kinds)
		for p := range n {
			out = append(out, lease.Allocation{Part: runstate.Part{
				Name: fmt.Sprintf("%s-%d", g.Address, p), GPU: g.Address, Index: p,
				Domain: g.Memory.Domain(p, n), NUMA: i * 2 / len(gpus), Hive: g.Hive, Kind: kinds[p],
			}})
		}
	}
	return out
}

// Choose returns the partitions that a request would get.
func (s Node) Choose(book []lease.Allocation, w dbusapi.Request) (placement.Choice, error) {
	place, err := placement.ParsePlace(w.Place)
	if err != nil {
		return placement.Choice{}, exitcode.With(exitcode.Usage, err)
	}
	var node []runstate.Part
	var there []string
	taken := make(map[string]bool)
	for _, h := range book {
		there = append(there, h.Kind)
		node = append(node, h.Part)
		taken[h.Name] = s.Free != "" || !h.Free()
	}
	for item := range strings.SplitSeq(s.Free, ",") {
		if s.Free == "" {
			break
		}
		names, err := partitionsNamed(node, strings.TrimSpace(item))
		if err != nil {
			return placement.Choice{}, exitcode.With(exitcode.Usage, err)
		}
		for _, name := range names {
			taken[name] = false
		}
	}
	if w.Partitions == 0 && w.GPUs == 0 {
		w.Partitions = 1
	}
	sought, err := partition.ParseCriteria(w.Vendor, w.Mode)
	if err != nil {
		return placement.Choice{}, exitcode.With(exitcode.Usage, err)
	}
	kinds, err := sought.Match(there)
	if err != nil {
		return placement.Choice{}, exitcode.With(exitcode.Permanent, err)
	}
	c, err := placement.Choose(node, taken, placement.Want{Partitions: w.Partitions, GPUs: w.GPUs, Place: place, Kinds: kinds})
	if _, short := errors.AsType[*placement.ShortError](err); short {
		err = exitcode.With(exitcode.Transient, err)
	}
	return c, err
}

// partitionsNamed returns the partitions that an item of a list means: "0000:05:00.0-3" is one
// partition, "0000:05:00.0" a whole GPU, and "2-3" and "2" the same of the third GPU.
func partitionsNamed(node []runstate.Part, item string) ([]string, error) {
	gpu, part, one := item, "", false
	if i := strings.LastIndexByte(item, '-'); i >= 0 {
		gpu, part, one = item[:i], item[i+1:], true
	}
	var gpus []partition.Address
	for _, p := range node {
		if !slices.Contains(gpus, p.GPU) {
			gpus = append(gpus, p.GPU)
		}
	}
	if i, err := strconv.Atoi(gpu); err == nil && i >= 0 && i < len(gpus) {
		gpu = string(gpus[i])
	}
	var out []string
	for _, p := range node {
		if string(p.GPU) == gpu && (!one || strconv.Itoa(p.Index) == part) {
			out = append(out, p.Name)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("there is no partition %q: this node has %s to %s", item, node[0].Name, node[len(node)-1].Name)
	}
	return out, nil
}

// NodeFlag adds --node, a kind of node instead of this host.
func NodeFlag(cmd *cobra.Command, what string) *string {
	return cmd.Flags().String("node", "", what+", such as mi300x-8 or h100-8, or the FILE of a record, instead of this host")
}

// GPUs returns the GPUs to check profiles against. No GPU is no error.
func GPUs(ctx context.Context, h *host.Host, cfg *config.Config, kind string) ([]partition.GPU, error) {
	if kind != "" {
		gpus, err := record.Node(kind)
		if err != nil {
			return nil, exitcode.With(exitcode.Usage, err)
		}
		return gpus, nil
	}
	devices, err := gather.Devices(ctx, host.OpenNode(h, cfg), client.FromDaemon(h))
	if err != nil && !errors.Is(err, gpu.ErrNoGPU) {
		return nil, err
	}
	return gpu.Partitionable(devices), nil
}

// NamesByIndex replaces the invented addresses of a kind of node with indices.
func NamesByIndex(gpus []partition.GPU) func(string) string {
	var pairs []string
	index := make(map[partition.Vendor]int)
	for _, g := range gpus {
		index[g.Vendor]++
	}
	vendors := len(index)
	clear(index)
	for _, g := range gpus {
		name := fmt.Sprintf("GPU %d", index[g.Vendor])
		if vendors > 1 {
			name = g.Vendor.String() + " " + name
		}
		pairs = append(pairs, string(g.Address), name)
		index[g.Vendor]++
	}
	return strings.NewReplacer(pairs...).Replace
}
