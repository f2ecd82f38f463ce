package nvidia

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"dcm/internal/gpu"
)

// crossCheck is the CrossCheck of [gpu.Vendor]. It counts the MIG devices that the driver shows
// in /proc; dcm itself reads geometries through the library.
func (n *inventory) crossCheck(_ context.Context, devices []*gpu.Device) gpu.CrossCheck {
	out := gpu.CrossCheck{Source: n.host.proc("capabilities")}
	reply := n.lastReply.Load()
	if reply == nil {
		out.Err = errors.New("the library has not reported the minor numbers of the GPUs")
		return out
	}
	if _, out.Err = os.Stat(out.Source); out.Err != nil {
		return out
	}
	for _, d := range devices {
		for _, g := range reply.GPUs {
			if g.Address != d.Address || g.Minor == nil || d.MIG == nil {
				continue
			}
			parts := 1
			if !d.MIG.Off {
				found, _ := filepath.Glob(n.host.proc("capabilities", fmt.Sprintf("gpu%d/mig/gi*/ci*", *g.Minor))) // a constant pattern has no error
				parts = len(found)
			}
			out.Observations = append(out.Observations, gpu.Observation{GPU: d.Address, Parts: parts})
		}
	}
	return out
}
