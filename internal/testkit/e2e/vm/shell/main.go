// Command shell boots a virtual machine with simulated GPUs and dcm, and opens a root shell in it. When the
// guest is powered off, the machine and its disk are removed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"dcm/internal/testkit/e2e"
	"dcm/internal/testkit/e2e/remote"
	"dcm/internal/testkit/e2e/vm"
	"dcm/internal/testkit/e2e/vm/testnode"
)

func main() {
	guests := slices.Sorted(maps.Keys(vm.Guests()))
	kernel := flag.String("kernel", "trixie", "`NAME` of the guest: "+strings.Join(guests, ", "))
	gpus := flag.Int("gpus", 2, "number of GPUs, 1 to 8")
	parameters := flag.String("parameters", "", "further parameters of the kernel")
	flag.Parse()
	guest, ok := vm.Guests()[*kernel]
	if !ok {
		fmt.Fprintf(os.Stderr, "shell: kernel: unknown name (found %q, want one of %s)\n", *kernel, strings.Join(guests, ", "))
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := run(ctx, guest, vm.Options{GPUs: *gpus, Kernel: strings.Fields(*parameters)}); err != nil {
		fmt.Fprintln(os.Stderr, "shell:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, guest vm.Guest, o vm.Options) (err error) {
	if err := vm.Missing(); err != nil {
		return err
	}
	dir, release, err := e2e.Scratch(e2e.Large)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	fmt.Println("Building dcm's package ...")
	product, err := testnode.Product(ctx, ".", dir)
	if err != nil {
		return err
	}
	disk, err := vm.OpenDisk(ctx, guest, product, os.Stdout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, disk.Close()) }()
	fmt.Println("Booting, unless a booted machine is in the cache ...")
	image, err := disk.Image(ctx, o)
	if err != nil {
		return err
	}
	m, err := image.RestoreOnTerminal()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if err := startShell(ctx, m); err != nil {
		return err
	}
	select {
	case <-m.Done():
	case <-ctx.Done():
	}
	return nil
}

// unit is the unit of a shell on the serial line. It also starts after a reboot.
const unit = `[Unit]
Description=Shell on the serial line
[Service]
Environment=TERM=%s HOME=/root
WorkingDirectory=/root
ExecStart=bash --login
StandardInput=tty
StandardOutput=tty
TTYPath=/dev/ttyS0
Restart=always
RestartSec=0
[Install]
WantedBy=multi-user.target
`

func startShell(ctx context.Context, m *vm.Machine) error {
	if err := m.Put(ctx, "/etc/systemd/system/shell.service", fmt.Appendf(nil, unit, os.Getenv("TERM")), 0o644); err != nil {
		return err
	}
	fmt.Println("`poweroff` ends the machine. Nothing in it is kept.")
	r, err := m.Run(ctx, "systemctl", "--quiet", "--now", "enable", "shell")
	if err == nil {
		err = failed(r)
	}
	return err
}

func failed(r remote.Result) error {
	if r.Code == 0 {
		return nil
	}
	return fmt.Errorf("cannot start the shell: exit status %d: %s", r.Code, r.Stderr)
}
