// Command dcm-sim simulates a node with AMD GPUs. It mounts a /sys and a /dev that behave
// like those of the amdgpu driver, and replaces modprobe and rmmod if it is called by their names.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer stop()
	os.Exit(run(ctx, os.Args, os.Stdout, os.Stderr))
}

// run is main without the process state.
func run(ctx context.Context, argv []string, stdout, stderr io.Writer) int {
	switch filepath.Base(argv[0]) {
	case "modprobe":
		return modprobe(argv[1:], "/", stderr)
	case "rmmod":
		return rmmod(argv[1:], stderr)
	}
	root := newRoot()
	root.SetArgs(argv[1:])
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var exit exitCode
	switch {
	case errors.As(err, &exit):
		return int(exit)
	case err != nil:
		fmt.Fprintf(stderr, "dcm-sim: %v\n", err)
		return 1
	}
	return 0
}

// exitCode is the exit code of an error that was already printed.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "dcm-sim",
		Short:         "simulate a node with AMD GPUs",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(newServe(), newKinds(), newModprobe(), newFault(), newAllow(), newCheck(), newAllocation(), newCleaner(), newReset(), newState())
	return root
}

// mountFlag adds --mount, the mount point of the node.
func mountFlag(c *cobra.Command) *string {
	return c.Flags().String("mount", defaultMount(), "directory of the mounted node")
}

func defaultMount() string {
	if dir := os.Getenv("DCM_SIM"); dir != "" {
		return dir
	}
	return "/run/dcm-sim"
}
