package bundle

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/supportbundle"
	"dcm/internal/linux/atomicfile"
	"dcm/internal/sanitize"
)

// readme heads the archive's list of contents.
const readme = `State of dcm on this host, for support. It contains no secrets: dcm's configuration has none.
Of other programs that have a GPU open it has names, pids and units, but no arguments and no
environment. It has names of hosts, units and profiles, names of the users who requested
runs, and serial numbers of GPUs. Output of hooks of dcm's units is in the journal.
`

// Runner runs another command of dcm.
type Runner func(ctx context.Context, con *console.Console, args []string) int

// Write writes the archive to standard output or to a file that only its owner can read.
func Write(ctx context.Context, h *host.Host, con *console.Console, run Runner, file string, now time.Time) error {
	name, err := os.Hostname()
	if err != nil {
		name = "host"
	}
	dir := fmt.Sprintf("dcm-report-%s-%s", sanitize.Text(name), now.Format("20060102T150405"))
	var packed bytes.Buffer
	if err := supportbundle.Write(ctx, &packed, dir, now, readme, bundleParts(h, run)); err != nil {
		return err
	}
	switch file {
	case "-":
		_, err := packed.WriteTo(con.Out)
		return err
	case "":
		file = dir + ".tar.gz"
	}
	if err := atomicfile.Write(file, packed.Bytes(), atomicfile.Options{Mode: 0o600}); err != nil {
		return fmt.Errorf("cannot write %s: %w", file, err)
	}
	con.Printf("The archive is %s; read its %s before you send it.\n", file, supportbundle.Contents)
	if os.Geteuid() != 0 {
		con.Warn("without root the archive lacks part of the journal and other users' processes")
	}
	return nil
}

func bundleParts(h *host.Host, run Runner) []supportbundle.Part {
	parts := []supportbundle.Part{
		{Name: "version.txt", Description: "dcm, the system and the kernel", Read: func(ctx context.Context) ([]byte, error) { return Versions(ctx, h) }},
		commandOutput(run, "status.txt", "status"),
		commandOutput(run, "status.json", "status", "--json"),
		commandOutput(run, "report.txt", "report"),
		commandOutput(run, "history.txt", "history"),
		commandOutput(run, "check.txt", "check"),
		commandOutput(run, "gpus.json", "gpus", "--json"),
		commandOutput(run, "holders.json", "holders", "--json"),
		{Name: "units.txt", Description: "systemctl show of dcm's units and the clients", Read: onlyHere(h, func(ctx context.Context) ([]byte, error) { return unitStates(ctx, h) })},
		{Name: "journal.txt", Description: "the journal of dcm's units", Read: onlyHere(h, journalOf("--output=short-iso-precise"))},
		{Name: "journal.json", Description: "the same with dcm's fields", Read: onlyHere(h, journalOf("--output=json", "--output-fields="+journalFields))},
		{Name: "kernel.txt", Description: "the kernel's lines on amdgpu, kfd and dcm since the boot", Read: onlyHere(h, func(ctx context.Context) ([]byte, error) { return KernelLines(ctx, h, time.Time{}, time.Time{}) })},
	}
	for _, name := range []string{runstate.RunFile, runstate.StateFile, runstate.DiscoveredFile} {
		parts = append(parts, ownFile(h, "run/dcm/"+name))
	}
	return append(parts, configuration(h)...)
}

// onlyHere returns read on the running host, and an error for another root directory.
func onlyHere(h *host.Host, read func(context.Context) ([]byte, error)) func(context.Context) ([]byte, error) {
	if h.Here() {
		return read
	}
	return func(context.Context) ([]byte, error) { return nil, host.ErrOtherRoot }
}

// commandOutput is the output of a dcm command, standard error included. Its exit status is
// ignored: it may report a problem.
func commandOutput(run Runner, name string, args ...string) supportbundle.Part {
	return supportbundle.Part{Name: name, Description: "dcm " + strings.Join(args, " "), Read: func(ctx context.Context) ([]byte, error) {
		var out bytes.Buffer
		run(ctx, &console.Console{Out: &out, Err: &out}, args)
		return out.Bytes(), nil
	}}
}
