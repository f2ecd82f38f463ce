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
	kind := c.Flags().String("kind", "mi300x-8", "kind of node, see dcm-sim kinds")
	gpus := c.Flags().Int("gpus", 0, "number of GPUs, if other than the kind's")
	memory := c.Flags().String("memory", "", "memory mode to boot in, if other than NPS1")
	c.Flags().DurationVar(&o.SwitchLatency, "switch-latency", 0, "how long a compute switch takes")
	c.Flags().DurationVar(&o.ReloadLatency, "reload-latency", 0, "how long a driver load takes")
	c.Flags().DurationVar(&o.Cache, "cache", 0, "how long the kernel may take a file that it has seen to be there still")
	c.Flags().DurationVar(&o.Settle, "settle", 0, "how long a GPU stays busy after its last process")
	c.Flags().BoolVar(&o.NodeLock, "node-lock", false, "as older kernels: any process and any switch makes every GPU busy")
	tells := c.Flags().String("tells", "", "how the kernel tells what partitions are used for: 1.1, 1.6, 1.7, 1.8, sums, 1.3, none, short, other")
	c.Flags().BoolVar(&o.OldMinors, "old-minors", false, "as kernels before 6.12: 64 DRM minors of each kind, and no more")
	c.Flags().BoolVar(&o.Scattered, "scattered-minors", false, "DRM minors in no order, as after rebinds")
	c.Flags().StringVar(&o.MIG, "mig", "", "file in which the stand-in of NVIDIA's library keeps what the GPUs have")
	uevents := c.Flags().Bool("uevents", false, "have the kernel tell of the devices, on this host, to whoever listens")
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
			o.Uevent = newBroadcaster(c.ErrOrStderr()).tell
		}
		if o.Tells, err = sim.ParseTells(*tells); err != nil {
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
		return errors.Join(fmt.Errorf("cannot tell systemd: %w", err), mounted.Unmount())
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
