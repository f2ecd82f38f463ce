package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/sim"
)

func newServe() *cobra.Command {
	c := &cobra.Command{
		Use:   "serve",
		Short: "mount a node and serve it until SIGTERM",
		Args:  cobra.NoArgs,
	}
	var o sim.Options
	mount := mountFlag(c)
	kind := c.Flags().String("kind", "mi300x-8", "kind of node, see dcm-sim kinds, or the path of a record (dcm support record)")
	gpus := c.Flags().Int("gpus", 0, "number of GPUs (default: that of the kind)")
	memory := c.Flags().String("memory", "", "memory mode at boot (default NPS1)")
	c.Flags().DurationVar(&o.SwitchLatency, "switch-latency", 0, "how long a compute switch takes")
	c.Flags().DurationVar(&o.ReloadLatency, "reload-latency", 0, "how long a driver load takes")
	c.Flags().DurationVar(&o.Settle, "settle", 0, "how long a GPU stays busy after its last process")
	c.Flags().BoolVar(&o.NodeLock, "node-lock", false, "as in older kernels: any process and any switch makes every GPU busy")
	format := c.Flags().String("usage-format", "", "format of the usage tables: 1.1, 1.6, 1.7, 1.8, sums, 1.3, none, short, other")
	c.Flags().BoolVar(&o.Allocation, "memory-allocation", false, "as in Linux 7.1 and later: GPUs have compute_partition_mem_alloc_mode")
	c.Flags().BoolVar(&o.Cleaner, "cleaner", false, "as in kernels since the patches of August 2024: GPUs have run_cleaner_shader and enforce_isolation")
	c.Flags().BoolVar(&o.OldMinors, "old-minors", false, "as in kernels before 6.12: at most 64 DRM minors of each kind")
	c.Flags().BoolVar(&o.Scattered, "scattered-minors", false, "DRM minors in no order, as after rebinds")
	c.Flags().StringVar(&o.MIG, "mig", "", "state file of the stand-in for libnvidia-ml")
	c.Flags().BoolVar(&o.Modeset, "modeset", false, "nvidia_drm has modeset=1, and so holds NVIDIA's GPUs")
	uevents := c.Flags().Bool("uevents", false, "send kernel events of the devices to all listeners of this host")
	c.RunE = func(c *cobra.Command, _ []string) error {
		k, err := sim.LookupKind(*kind)
		if err != nil {
			return err
		}
		if *memory != "" {
			if o.Memory, err = partition.ParseMemory(*memory); err != nil {
				return err
			}
		}
		if *uevents {
			o.Uevent = newBroadcaster(c.ErrOrStderr()).send
		}
		if o.UsageFormat, err = sim.ParseUsageFormat(*format); err != nil {
			return err
		}
		if *gpus > 0 {
			k = k.Scaled(*gpus)
		}
		if o.Parameters, err = sim.ParseParameters(moduleOptions("/")); err != nil {
			return err
		}
		n := sim.New(k, o)
		if err := n.Begin(); err != nil {
			return err
		}
		return serve(c, n, *mount)
	}
	return c
}

func serve(c *cobra.Command, n *sim.Node, dir string) error {
	if err := prepare(dir); err != nil {
		return fmt.Errorf("cannot make the mount point %s: %w", dir, err)
	}
	mounted, err := sim.Mount(n, dir)
	if err != nil {
		return err
	}
	fmt.Fprintln(c.OutOrStdout(), "mounted")
	if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
		return errors.Join(fmt.Errorf("cannot notify systemd: %w", err), mounted.Unmount())
	}
	gone := make(chan struct{})
	go func() {
		mounted.Wait()
		close(gone)
	}()
	select {
	case <-gone:
		return nil
	case <-c.Context().Done():
		return mounted.Unmount()
	}
}

// prepare creates the mount point and removes what a killed server left there.
func prepare(dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, unix.ENOTCONN) {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			return err
		}
	}
	return os.MkdirAll(dir, 0o755)
}

func newKinds() *cobra.Command {
	return &cobra.Command{
		Use:   "kinds",
		Short: "list the kinds of node",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, k := range sim.Kinds() {
				fmt.Fprintln(w, strings.Join([]string{k.Name, k.About}, "\t"))
			}
			return w.Flush()
		},
	}
}
