// Command agent runs inside a test container.
//
// "agent serve DIR" is an early unit. It listens on DIR/agent.sock, then connects to
// DIR/hello.sock of the test and sends the boot id. When that connection is closed, it powers
// the container off. "agent await FILE TEXT..." waits until a file contains all of the texts,
// "agent await-command SCRIPT [ARGUMENT...]" until a shell script succeeds.
// "agent serial PATTERN" runs commands that arrive on the serial line whose device matches
// the pattern, in a virtual machine.
// "agent flight FILE READY" keeps a file in transit over a socket. "agent mapped FILE
// READY" keeps a file mapped and not open. "agent allocate NODE GIBIBYTES [READY]" allocates memory
// of a GPU of the stand-in driver. "agent grab FILE NODE..." opens nodes
// repeatedly. "agent pounce FILE DIR NODE..." opens them when an exclusive lease begins. "agent
// leasesoak SOCKET READY" runs many concurrent leases, and in each of them "agent hold".
// "agent answer ADDRESS" is an HTTP server, and "agent get ADDRESS" prints its answer.
// "agent attack" is package attack.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"dcm/internal/testkit/e2e/attack"
	"dcm/internal/testkit/e2e/leasesoak"
	"dcm/internal/testkit/e2e/remote"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) > 2 && args[0] == "await":
		return await(args[1], args[2:])
	case len(args) > 1 && args[0] == "await-command":
		return awaitCommand(ctx, args[1], args[2:])
	case len(args) == 3 && args[0] == "flight":
		return flight(args[1], args[2])
	case len(args) == 3 && args[0] == "mapped":
		return mapped(args[1], args[2])
	case len(args) == 3 && args[0] == "allocate":
		return allocate(args[1], args[2], "")
	case len(args) == 4 && args[0] == "allocate":
		return allocate(args[1], args[2], args[3])
	case len(args) > 2 && args[0] == "grab":
		return grab(args[1], args[2:])
	case len(args) > 3 && args[0] == "pounce":
		return pounce(args[1], args[2], args[3:])
	case len(args) == 3 && args[0] == "leasesoak":
		return leasesoak.Serve(ctx, args[1], args[2])
	case len(args) == 1 && args[0] == "hold":
		return leasesoak.Hold(os.Stdin, os.Stdout)
	case len(args) == 4 && args[0] == "attack" && args[1] == "flood":
		return attack.Flood(args[2], args[3], os.Stdout)
	case len(args) == 6 && args[0] == "attack" && args[1] == "pour":
		return attack.Pour(args[2], args[3], args[4], args[5], os.Stdout)
	case len(args) == 6 && args[0] == "attack" && args[1] == "agents":
		return attack.Agents(args[2], args[3], args[4], args[5], os.Stdout)
	case len(args) > 3 && args[0] == "attack" && args[1] == "become":
		return attack.Become(args[2], args[3:])
	case len(args) == 2 && args[0] == "attack" && args[1] == "request":
		return attack.Request()
	case len(args) == 6 && args[0] == "attack" && args[1] == "reuse":
		return attack.Reuse(args[2], args[3], args[4], args[5], os.Stdout)
	case len(args) == 2 && args[0] == "answer":
		return answer(args[1])
	case len(args) == 2 && args[0] == "get":
		return get(args[1])
	case len(args) == 2 && args[0] == "serve":
		return serve(ctx, args[1])
	case len(args) == 2 && args[0] == "serial":
		return serial(ctx, args[1])
	}
	return errors.New("usage: agent serve DIR | agent serial PATTERN | agent await FILE TEXT... | agent await-command SCRIPT [ARGUMENT...] | agent flight FILE READY | agent mapped FILE READY | agent allocate NODE GIBIBYTES [READY] | agent grab FILE NODE... | agent pounce FILE DIR NODE... | agent leasesoak SOCKET READY | agent hold | agent answer ADDRESS | agent get ADDRESS | agent attack KIND ARGUMENT")
}

func serve(ctx context.Context, dir string) error {
	socket := filepath.Join(dir, "agent.sock")
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // the socket of the boot before cannot be removed
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return err
	}
	go func() {
		greet(filepath.Join(dir, "hello.sock"), boot)
		powerOff()
	}()
	return remote.Serve(ctx, l)
}

func serial(ctx context.Context, pattern string) error {
	devices, err := filepath.Glob(pattern)
	if err != nil || len(devices) != 1 {
		return fmt.Errorf("%s matches %q, want one device", pattern, devices)
	}
	line, err := os.OpenFile(devices[0], os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer line.Close()
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return err
	}
	return remote.ServeSerial(ctx, line, strings.TrimSpace(string(boot)))
}

// greet sends the boot id, and returns when the test closes the connection.
func greet(socket string, boot []byte) {
	hello, err := net.Dial("unix", socket)
	if err == nil {
		_, err = hello.Write(boot)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, hello)
	}
	fmt.Fprintln(os.Stderr, "agent: the test has ended:", err)
}

func powerOff() {
	// With --force twice systemctl does not need PID 1, which the test may have broken.
	cmd := exec.Command("systemctl", "--force", "--force", "poweroff")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "agent: cannot power off:", err)
	}
}
