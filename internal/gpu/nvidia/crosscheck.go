package nvidia

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"dcm/internal/gpu"
)

// CrossCheck counts the MIG devices that the driver shows in /proc. dcm itself reads
// geometries through the library.
func (n *Node) CrossCheck(_ context.Context, devices []*gpu.Device) (who string, seen []gpu.Observation, err error) {
	who = n.proc("capabilities")
	reply := n.lastReply.Load()
	if reply == nil {
		return who, nil, errors.New("the library has not told which GPU is which")
	}
	if _, err := os.Stat(who); err != nil {
		return who, nil, err
	}
	for _, d := range devices {
		for _, g := range reply.GPUs {
			if g.Address != d.Address || g.Minor == nil || d.MIG == nil {
				continue
			}
			parts := 1
			if !d.MIG.Off {
				found, _ := filepath.Glob(n.proc("capabilities", fmt.Sprintf("gpu%d/mig/gi*/ci*", *g.Minor))) // a constant pattern has no error
				parts = len(found)
			}
			seen = append(seen, gpu.Observation{GPU: d.Address, Parts: parts})
		}
	}
	return who, seen, nil
}
