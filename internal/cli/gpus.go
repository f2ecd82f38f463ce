package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"dcm/internal/amdgpu"
	"dcm/internal/config"
	"dcm/internal/host"
	"dcm/internal/partition"
)

// inventory is one device as `dcm gpus --json` tells it.
type inventory struct {
	Index            int                 `json:"index"`
	Address          partition.Address   `json:"address"`
	Model            string              `json:"model"`
	Name             string              `json:"name,omitempty"`
	Serial           string              `json:"serial,omitempty"`
	UUID             string              `json:"uuid,omitempty"`
	UniqueID         string              `json:"unique_id,omitempty"`
	Mode             partition.Mode      `json:"mode"`
	Partitions       int                 `json:"partitions"`
	AvailableCompute []partition.Compute `json:"available_compute,omitempty"`
	AvailableMemory  []partition.Memory  `json:"available_memory,omitempty"`
	ReadOnly         bool                `json:"read_only,omitempty"`
	Hive             string              `json:"hive,omitempty"`
	NUMA             int                 `json:"numa"`
	Driver           string              `json:"driver,omitempty"`
	DriverVersion    string              `json:"driver_version,omitempty"`
	Card             string              `json:"card,omitempty"`
	RenderNodes      []string            `json:"render_nodes,omitempty"`
	Why              string              `json:"why,omitempty"`
	Source           map[string]string   `json:"source,omitempty"`
}

func gpusCmd(h *host.Host, con *Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "gpus [--json]",
		Short: "List the GPUs, their modes and what they could have",
		Args:  args(cobra.NoArgs),
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(c *cobra.Command, _ []string) error { return gpus(c.Context(), h, con, *asJSON) }
	return cmd
}

func gpus(ctx context.Context, h *host.Host, con *Console, asJSON bool) error {
	// A broken configuration does not keep one from looking at the hardware.
	cfg, err := h.Config()
	if err != nil {
		cfg = &config.Config{Backend: config.Sysfs}
	}
	node := h.Node(cfg)
	devices, err := node.Devices(ctx)
	enrich(ctx, con, node, cfg, devices)
	list := inventories(devices)
	if asJSON {
		if e := con.answer(list); e != nil {
			return e
		}
		return err
	}
	t := newTable(con.out, "GPU", "ADDRESS", "MODEL", "SERIAL", "MODE", "PARTITIONS", "COMPUTE MODES", "MEMORY MODES", "NUMA", "RENDER NODES")
	for _, i := range list {
		if i.Why != "" {
			t.row("-", string(i.Address), i.Model, "-", "-", "-", "not touched: "+i.Why)
			continue
		}
		t.row(fmt.Sprint(i.Index), string(i.Address), cmp.Or(i.Name, i.Model), orDash(i.Serial), i.Mode.String(), fmt.Sprint(i.Partitions),
			orDash(joined(i.AvailableCompute)), orDash(joined(i.AvailableMemory)), fmt.Sprint(i.NUMA), span(i.RenderNodes))
	}
	t.flush()
	for _, line := range sources(devices) {
		fmt.Fprintln(con.out, line)
	}
	return err
}

// enrich asks AMD's library for names and serials. What is shown is complete
// without them, so that it is not installed is worth no word.
func enrich(ctx context.Context, con *Console, node *amdgpu.Node, cfg *config.Config, devices []amdgpu.Device) {
	err := node.Enrich(ctx, devices)
	var failed *amdgpu.SMIError
	if err == nil || cfg.Backend == config.Auto && errors.As(err, &failed) && failed.Absent() {
		return
	}
	fmt.Fprintln(con.err, con.yellow("dcm: warning: ")+err.Error())
}

// sources says where the facts came from: one line for each source, with what it
// told of any of the devices.
func sources(devices []amdgpu.Device) []string {
	facts := make(map[string]map[string]bool)
	for _, d := range devices {
		for fact, source := range d.Source {
			if facts[source] == nil {
				facts[source] = make(map[string]bool)
			}
			facts[source][strings.ReplaceAll(fact, "_", " ")] = true
		}
	}
	var lines []string
	for _, source := range slices.Sorted(maps.Keys(facts)) {
		lines = append(lines, fmt.Sprintf("From %s: %s", source, strings.Join(slices.Sorted(maps.Keys(facts[source])), ", ")))
	}
	return lines
}

func inventories(devices []amdgpu.Device) []inventory {
	list := []inventory{}
	for i, v := range host.Views(devices, partition.Layout{}) {
		d := devices[i]
		inv := inventory{
			Index: v.Index, Address: v.Address, Model: v.Model, Mode: v.Mode, Partitions: v.Partitions,
			Name: d.Name, Serial: d.Serial, UUID: d.UUID, UniqueID: d.UniqueID,
			AvailableCompute: d.AvailableCompute, AvailableMemory: d.AvailableMemory, ReadOnly: d.ReadOnly,
			NUMA: d.NUMA, Driver: d.Driver, DriverVersion: d.DriverVersion, Card: d.Card,
			RenderNodes: d.RenderNodes, Why: d.Why, Source: d.Source,
		}
		if d.Hive != 0 {
			inv.Hive = fmt.Sprintf("%016x", d.Hive)
		}
		list = append(list, inv)
	}
	return list
}

func joined[S ~string](items []S) string {
	return strings.ReplaceAll(partition.List(items), ", ", ",")
}

// span shortens a GPU's render nodes: "renderD128", "renderD128 … 135 (8)".
func span(nodes []string) string {
	short := func(n string) string { return strings.TrimPrefix(n, "/dev/dri/") }
	switch len(nodes) {
	case 0:
		return "-"
	case 1:
		return short(nodes[0])
	}
	last := strings.TrimPrefix(short(nodes[len(nodes)-1]), "renderD")
	return fmt.Sprintf("%s…%s (%d)", short(nodes[0]), last, len(nodes))
}
