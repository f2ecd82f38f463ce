package leases

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"dcm/internal/frontends/dbusapi"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/lease"
)

// addNamed adds the options that name the GPUs or partitions of a lease.
func addNamed(f *pflag.FlagSet, w *dbusapi.Request) {
	f.StringSliceVar(&w.NamedGPUs, "gpu", nil, "request these GPUs, each a `GPU` by index or PCI address")
	f.StringSliceVar(&w.NamedPartitions, "partition", nil, "request these partitions, each a `PARTITION` such as 0000:65:00.0-1 or 65-1")
}

// checkNamed checks the names of GPUs and partitions.
func checkNamed(w dbusapi.Request, set func(option string) bool) error {
	switch {
	case set("gpu") && set("partition"):
		return errors.New("--gpu and --partition cannot be combined")
	case set("gpu") && len(w.NamedGPUs) == 0:
		return errors.New("--gpu: empty; omit the option, or give a GPU")
	case set("partition") && len(w.NamedPartitions) == 0:
		return errors.New("--partition: empty; omit the option, or give a partition")
	}
	for _, name := range w.NamedGPUs {
		if _, err := partition.ParseSelector(name); err != nil {
			return fmt.Errorf("--gpu: %w", err)
		}
	}
	for _, name := range w.NamedPartitions {
		if _, err := lease.ParsePartName(name); err != nil {
			return fmt.Errorf("--partition: %w", err)
		}
	}
	return nil
}
