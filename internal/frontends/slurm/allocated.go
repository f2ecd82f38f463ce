package slurm

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Allocated returns the devices that slurmctld has given to jobs. mapped is false if slurmctld has other
// GRES for the node than g. Then the numbers of slurmctld name no device, and Allocated returns all
// devices if jobs have any.
func (c Controller) Allocated(ctx context.Context, g Gres) (used []Device, mapped bool, err error) {
	text, err := c.Run(ctx, "--oneliner", "--details", "show", "node", c.NodeName)
	if err != nil {
		return nil, false, fmt.Errorf("cannot read the record of node %s from slurmctld: %w", c.NodeName, err)
	}
	indexes := usedIndexes(valueOf(text, "GresUsed"))
	if len(indexes) == 0 {
		return nil, true, nil
	}
	gres := ParseNode(text).Gres
	devices, mapped := g.numbered(gres)
	if !mapped {
		devices, mapped = g.Plain().numbered(gres)
	}
	if !mapped || indexes[len(indexes)-1] >= len(devices) {
		return g.Devices, false, nil
	}
	for _, i := range indexes {
		used = append(used, devices[i])
	}
	return used, true, nil
}

// usedGPUs matches one type of GPUs in GresUsed: "gpu:cpx_nps1:3(IDX:0-1,5)".
var usedGPUs = regexp.MustCompile(`(?:^|,)gpu(?::[^:,()]+)?:\d+\(IDX:([0-9,-]+)\)`)

// usedIndexes returns the numbers of the GPUs in GresUsed, in ascending order.
func usedIndexes(used string) []int {
	var out []int
	for _, found := range usedGPUs.FindAllStringSubmatch(used, -1) {
		for _, part := range strings.Split(found[1], ",") {
			first, last, isRange := strings.Cut(part, "-")
			if !isRange {
				last = first
			}
			from, wrong := strconv.Atoi(first)
			to, bad := strconv.Atoi(last)
			for i := from; wrong == nil && bad == nil && i <= min(to, from+maxDevices); i++ {
				out = append(out, i)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// maxDevices is more than a node has.
const maxDevices = 4096

// numbered returns the devices in the order of slurmd's numbers: that of their types in gres, which is Gres= of
// slurm.conf. ok is false if gres has other counts.
func (g Gres) numbered(gres string) (out []Device, ok bool) {
	if !slices.Equal(gpus(gres), gpus(g.Counts())) {
		return nil, false
	}
	for _, entry := range list(sockets.ReplaceAllString(gres, "")) {
		for _, d := range g.Devices {
			if strings.HasPrefix(entry, "gpu:"+d.Type+":") {
				out = append(out, d)
			}
		}
	}
	return out, true
}
