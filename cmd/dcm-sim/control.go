package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/sim"
)

func newFault() *cobra.Command {
	c := &cobra.Command{
		Use:     "fault",
		Short:   "inject a fault",
		Example: "  dcm-sim fault --gpu 0000:05:00.0 --op compute --errno EIO\n  dcm-sim fault --op load --errno ENODEV --times always\n  dcm-sim fault --gpu 0000:05:00.0 --vanish\n  dcm-sim fault --clear",
		Args:    cobra.NoArgs,
	}
	var f sim.Fault
	mount := mountFlag(c)
	flags := c.Flags()
	gpu := flags.String("gpu", "all", "PCI address, or all for any GPU; with --op load, a GPU fails its probe, all fails the load")
	op := flags.String("op", string(sim.OpNow), "compute, memory, read, unload, load, show; now for --vanish and --appear")
	times := flags.String("times", "1", "number of times, or always")
	clearAll := flags.Bool("clear", false, "disarm every fault, and end hangs in progress")
	flags.StringVar(&f.File, "file", "", "strike only reads of this partition file; with show, a file of the GPU or any by its path")
	flags.Var(text{&f.Errno}, "errno", "fail with this errno, EBUSY")
	flags.BoolVar(&f.After, "after", false, "fail after the operation took effect (always for EIO of compute)")
	flags.Var(text{&f.Hang}, "hang", "block for this long, or forever; --clear ends it")
	flags.BoolVar(&f.Vanish, "vanish", false, "remove the GPU from the bus")
	flags.BoolVar(&f.Appear, "appear", false, "add the GPU to the bus after --vanish, as hot-plug does")
	flags.BoolVar(&f.Wrong, "wrong", false, "report success without effect; a read shows another mode")
	flags.BoolVar(&f.Short, "short", false, "a read ends in the middle of the word")
	flags.BoolVar(&f.Gone, "gone", false, "with show: the file is not there")
	flags.StringVar(&f.Text, "text", "", "with show: a read returns this, or if it is 'name value', has this line instead of that of the name")
	permissions := flags.String("permissions", "0", "with show: the file has these, 0666")
	flags.IntVar(&f.Skip, "skip", 0, "let that many operations pass first")
	c.RunE = func(*cobra.Command, []string) error {
		if *clearAll {
			return control(*mount, "faults", "clear")
		}
		f.Op = sim.Op(*op)
		n, err := strconv.ParseUint(*permissions, 8, 9)
		if err != nil {
			return fmt.Errorf("--permissions: invalid value (found %s, want an octal number like 0666)", *permissions)
		}
		f.Permissions = uint32(n)
		if err := limit(&f, *gpu, *times); err != nil {
			return err
		}
		if err := f.Check(); err != nil {
			return err
		}
		message, err := json.Marshal(f)
		if err != nil {
			return err
		}
		return control(*mount, "faults", string(message))
	}
	return c
}

// limit sets the GPU of the fault and how often it occurs.
func limit(f *sim.Fault, gpu, times string) error {
	if gpu != "all" {
		a, err := partition.ParseAddress(gpu)
		if err != nil {
			return err
		}
		f.GPU = a
	}
	if times == "always" {
		f.Always = true
		return nil
	}
	n, err := strconv.Atoi(times)
	if err != nil || n < 1 {
		return fmt.Errorf("--times: invalid value (found %s, want a number from 1, or always)", times)
	}
	f.Times = n
	return nil
}

func newAllow() *cobra.Command {
	c := &cobra.Command{
		Use:     "allow (--unit UNIT | --pid PID) [GPU...]",
		Short:   "set which GPUs a unit or process may use, as its device cgroup does; without GPUs, remove the rule",
		Example: "  dcm-sim allow --unit vllm@3.service 0000:65:00.0\n  dcm-sim allow --unit vllm@3.service",
	}
	var a sim.Allowance
	mount := mountFlag(c)
	c.Flags().StringVar(&a.Unit, "unit", "", "the processes of this unit")
	c.Flags().IntVar(&a.PID, "pid", 0, "this process")
	c.MarkFlagsOneRequired("unit", "pid")
	c.MarkFlagsMutuallyExclusive("unit", "pid")
	c.RunE = func(_ *cobra.Command, args []string) error {
		for _, arg := range args {
			address, err := partition.ParseAddress(arg)
			if err != nil {
				return err
			}
			a.GPUs = append(a.GPUs, address)
		}
		message, err := json.Marshal(a)
		if err != nil {
			return err
		}
		return control(*mount, "allow", string(message))
	}
	return c
}

func newCheck() *cobra.Command {
	c := &cobra.Command{
		Use:       "check gpu|node",
		Short:     "set whose processes make a compute switch fail: those of the GPU, or, as before Linux 6.17, all",
		ValidArgs: []string{"gpu", "node"},
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
	}
	mount := mountFlag(c)
	c.RunE = func(_ *cobra.Command, args []string) error { return control(*mount, "check", args[0]) }
	return c
}

func newAllocation() *cobra.Command {
	c := &cobra.Command{
		Use:       "allocation on|off",
		Short:     "set whether GPUs have compute_partition_mem_alloc_mode, as in Linux 7.1 and later",
		ValidArgs: []string{"on", "off"},
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
	}
	mount := mountFlag(c)
	c.RunE = func(_ *cobra.Command, args []string) error { return control(*mount, "allocation", args[0]) }
	return c
}

func newCleaner() *cobra.Command {
	c := &cobra.Command{
		Use:       "cleaner on|off",
		Short:     "set whether GPUs have run_cleaner_shader and enforce_isolation, as in newer kernels",
		ValidArgs: []string{"on", "off"},
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
	}
	mount := mountFlag(c)
	c.RunE = func(_ *cobra.Command, args []string) error { return control(*mount, "cleaner", args[0]) }
	return c
}

func newReset() *cobra.Command {
	c := &cobra.Command{Use: "reset", Short: "reset the node to its state after boot", Args: cobra.NoArgs}
	mount := mountFlag(c)
	c.RunE = func(*cobra.Command, []string) error { return control(*mount, "reset", "reset") }
	return c
}

func newState() *cobra.Command {
	c := &cobra.Command{Use: "state", Short: "print the node's state as JSON", Args: cobra.NoArgs}
	mount := mountFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		f, err := os.Open(filepath.Join(*mount, "ctl/state"))
		if err != nil {
			return fmt.Errorf("no simulated node is mounted: %w", err)
		}
		defer f.Close()
		_, err = io.Copy(c.OutOrStdout(), f)
		return err
	}
	return c
}

// control writes one message to a file of the node's ctl directory.
func control(mount, file, message string) error {
	f, err := os.OpenFile(filepath.Join(mount, "ctl", file), os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("no simulated node is mounted: %w", err)
	}
	defer f.Close()
	_, err = f.WriteString(message)
	return err
}

// text is a flag value for a type with text marshalling.
type text struct {
	value interface {
		MarshalText() ([]byte, error)
		UnmarshalText([]byte) error
	}
}

func (t text) Set(s string) error { return t.value.UnmarshalText([]byte(s)) }

func (t text) Type() string { return "" }

func (t text) String() string {
	if t.value == nil {
		return ""
	}
	s, err := t.value.MarshalText()
	if err != nil {
		return ""
	}
	return string(s)
}
