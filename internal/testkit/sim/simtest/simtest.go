// Package simtest mounts a simulated node for a test.
package simtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"dcm/internal/testkit/sim"
)

// Node is a mounted node. The embedded state machine injects faults and counts operations.
type Node struct {
	*sim.Node
	Mount    string // with sys, dev and ctl
	Sys, Dev string
	Modprobe string // path of a program that replaces modprobe
	Rmmod    string // and rmmod
}

// Start mounts a node of a kind until the test ends. If nothing can be mounted, it skips the test and
// logs the reason.
func Start(t testing.TB, kind string, o sim.Options) *Node {
	t.Helper()
	k, err := sim.LookupKind(kind)
	if err != nil {
		t.Fatal(err)
	}
	return StartKind(t, k, o)
}

// StartKind is [Start] for a kind that is not in [sim.Kinds].
func StartKind(t testing.TB, k sim.Kind, o sim.Options) *Node {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: mounting a simulated node needs root")
	}
	if err := unix.Access("/dev/fuse", unix.R_OK|unix.W_OK); err != nil {
		t.Skipf("skipped: mounting a simulated node needs /dev/fuse: %v", err)
	}
	dir := t.TempDir()
	mount := filepath.Join(dir, "node")
	if err := os.Mkdir(mount, 0o755); err != nil {
		t.Fatal(err)
	}
	n := &Node{
		Node: sim.New(k, o), Mount: mount, Sys: filepath.Join(mount, "sys"), Dev: filepath.Join(mount, "dev"),
		Modprobe: filepath.Join(dir, "modprobe"), Rmmod: filepath.Join(dir, "rmmod"),
	}
	mounted, err := sim.Mount(n.Node, mount)
	if errors.Is(err, unix.EPERM) {
		t.Skipf("skipped: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := mounted.Abort(); err != nil {
			t.Error(err)
		}
		n.End()
	})
	for path, script := range map[string]string{n.Modprobe: modprobe, n.Rmmod: rmmod} {
		if err := os.WriteFile(path, fmt.Appendf(nil, script, mount), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// modprobe does the same as dcm-sim modprobe, which would have to be built.
const modprobe = `#!/bin/sh
ctl='%s/ctl/module'
case " $* " in
*" nvidia_drm "*) echo load nvidia_drm >"${ctl%%module}nvidia"; exit ;;
*" amdgpu "*) ;;
*) exit 0 ;;
esac
case " $* " in
*" -r "*)
	test "$(cat "$ctl")" = '""' || echo unload 2>/dev/null >"$ctl" || {
		echo "modprobe: FATAL: Module amdgpu is in use." >&2
		exit 1
	} ;;
*)
	args=
	for a; do case $a in *=*) args="$args $a" ;; esac; done
	echo "load$args" 2>/dev/null >"$ctl" || {
		echo "modprobe: ERROR: could not insert 'amdgpu'" >&2
		exit 1
	} ;;
esac
`

// rmmod does the same as dcm-sim in place of rmmod.
const rmmod = `#!/bin/sh
echo unload "$1" 2>/dev/null >'%s/ctl/nvidia' || {
	echo "rmmod: ERROR: Module $1 is in use" >&2
	exit 1
}
`

// Reload unloads and loads the driver, as modprobe does.
func (n *Node) Reload(ctx context.Context) error {
	if err := n.Unload(ctx); err != nil {
		return err
	}
	return n.Load(ctx, sim.Parameters{})
}
