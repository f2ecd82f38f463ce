package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/google/renameio/v2"

	"dcm/internal/bundle"
	"dcm/internal/config"
	"dcm/internal/daemon"
	"dcm/internal/report"
)

// about heads the archive's list of contents.
const about = `What dcm knows of this host, for support. There is nothing secret of dcm's in it: its
configuration has no secrets, and of other programs there are the names, pids and units
of those that have a GPU open, never their arguments or environment. There are names of
hosts, units and profiles, and serial numbers of GPUs. If hooks were added to the units,
what they print is in the journal.
`

// bundle writes the archive to a file, which root alone may read, or to standard
// output.
func (h *host) bundle(ctx context.Context, file string, now time.Time) error {
	name, err := os.Hostname()
	if err != nil {
		name = "host"
	}
	dir := fmt.Sprintf("dcm-report-%s-%s", name, now.Format("20060102T150405"))
	var packed bytes.Buffer
	if err := bundle.Write(ctx, &packed, dir, now, about, h.parts()); err != nil {
		return err
	}
	switch file {
	case "-":
		_, err := packed.WriteTo(h.out)
		return err
	case "":
		file = dir + ".tar.gz"
	}
	if err := renameio.WriteFile(file, packed.Bytes(), 0o600); err != nil {
		return fmt.Errorf("cannot write %s: %w", file, err)
	}
	fmt.Fprintf(h.out, "%s holds what support may ask for; see %s in it before you send it.\n", file, bundle.Contents)
	if os.Geteuid() != 0 {
		fmt.Fprintln(h.err, h.yellow("dcm: warning: ")+"without root the archive lacks part of the journal and other users' processes")
	}
	return nil
}

func (h *host) parts() []bundle.Part {
	parts := []bundle.Part{
		{Name: "version.txt", From: "dcm, the system and the kernel", Read: h.versions},
		h.told("status.txt", "dcm status", func(ctx context.Context, h *host) error { return showStatus(ctx, h, false) }),
		h.told("status.json", "dcm status --json", func(ctx context.Context, h *host) error { return showStatus(ctx, h, true) }),
		h.told("report.txt", "dcm report", func(ctx context.Context, h *host) error { return lastReport(ctx, h, false) }),
		h.told("check.txt", "dcm check", func(ctx context.Context, h *host) error { return check(ctx, h, nil, "") }),
		h.told("gpus.json", "dcm gpus --json", func(ctx context.Context, h *host) error { return gpus(ctx, h, true) }),
		h.told("holders.json", "dcm holders --json", func(ctx context.Context, h *host) error { return holders(ctx, h, false, true) }),
		{Name: "units.txt", From: "systemctl show of both units and the clients", Read: h.here(h.unitStates)},
		{Name: "journal.txt", From: "the journal of both units", Read: h.here(journalOf("--output=short-iso-precise"))},
		{Name: "journal.json", From: "the same with dcm's fields", Read: h.here(journalOf("--output=json", "--output-fields="+journalFields))},
		{Name: "kernel.txt", From: "the kernel's lines on amdgpu, kfd and dcm since the boot", Read: h.here(kernelLines)},
	}
	for _, name := range []string{report.RunFile, report.StateFile, report.DiscoveredFile} {
		parts = append(parts, h.file("run/dcm/"+name))
	}
	return append(parts, h.configuration()...)
}

// here reads what is of the running host, and so of no other tree.
func (h *host) here(read func(context.Context) ([]byte, error)) func(context.Context) ([]byte, error) {
	if h.root == "/" {
		return read
	}
	return func(context.Context) ([]byte, error) { return nil, errors.New("not for another root directory") }
}

// told is what a command of dcm tells, its standard error included. That it finds
// something wrong is what the reader wants to see.
func (h *host) told(name, from string, command func(context.Context, *host) error) bundle.Part {
	return bundle.Part{Name: name, From: from, Read: func(ctx context.Context) ([]byte, error) {
		var out bytes.Buffer
		quiet := &host{root: h.root, out: &out, err: &out}
		err := command(ctx, quiet)
		if err != nil && err.Error() != "" {
			fmt.Fprintln(&out, "dcm: "+err.Error())
		}
		return out.Bytes(), nil
	}}
}

// configuration are the files of every layer, as they are.
func (h *host) configuration() []bundle.Part {
	p := config.DefaultPaths("/")
	var parts []bundle.Part
	for _, pattern := range []string{
		filepath.Join(p.Shipped, "*.toml"), p.Kubernetes, p.Admin, filepath.Join(p.Local, "*.toml"), filepath.Join(p.Runtime, "*.toml"),
		"/run/systemd/generator/*.d/50-dcm.conf",
	} {
		found, _ := filepath.Glob(h.path(pattern)) // the patterns are without mistake
		for _, file := range found {
			parts = append(parts, h.file(strings.TrimPrefix(file, h.path())))
		}
	}
	return parts
}

// file is one of dcm's own files. A symbolic link that leads out of dcm's
// directories is not followed: what is there is not dcm's to give away.
func (h *host) file(path string) bundle.Part {
	path = strings.TrimPrefix(path, "/")
	return bundle.Part{Name: "files/" + path, From: "/" + path, Read: func(context.Context) ([]byte, error) {
		full := h.path(path)
		real, err := filepath.EvalSymlinks(full)
		if err != nil {
			return nil, err
		}
		for _, dir := range []string{"etc/dcm", "usr/lib/dcm", "run/dcm", "run/systemd/generator"} {
			own, err := filepath.EvalSymlinks(h.path(dir))
			if err == nil && strings.HasPrefix(real, own+"/") {
				return readRegular(real)
			}
		}
		return nil, errors.New("a link to " + real + ", which is not dcm's")
	}}
}

func readRegular(path string) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	return os.ReadFile(path)
}

// versions are those of everything that takes part. Of the kernel command line, which
// may hold secrets, only dcm's own words are taken.
func (h *host) versions(ctx context.Context) ([]byte, error) {
	var out bytes.Buffer
	fmt.Fprintf(&out, "dcm %s, %s, %s\nlibamd_smi: %s\n", version, runtime.Version(), runtime.GOARCH, h.library(ctx))
	for _, path := range []string{"proc/sys/kernel/osrelease", "sys/module/amdgpu/version", "etc/os-release"} {
		if text, err := os.ReadFile(h.path(path)); err == nil {
			fmt.Fprintf(&out, "%s: %s\n", path, strings.TrimSpace(string(text)))
		}
	}
	cmdline, err := os.ReadFile(h.path("proc/cmdline"))
	for word := range strings.FieldsSeq(string(cmdline)) {
		if strings.HasPrefix(word, "dcm.") || strings.HasPrefix(word, "amdgpu.") {
			fmt.Fprintln(&out, "kernel command line:", word)
		}
	}
	systemd, _ := output(ctx, "systemctl", "--version") // its absence shows
	out.Write(systemd)
	return out.Bytes(), err
}

// unitStates are the states that systemd has, and where the settings come from; not
// the settings, which may be anybody's.
func (h *host) unitStates(ctx context.Context) ([]byte, error) {
	units := []string{daemon.Unit, daemon.ApplyUnit}
	if cfg, err := h.config(); err == nil {
		for _, c := range h.clients(cfg) {
			units = append(units, strings.Replace(c, "@.", "@*.", 1))
		}
	}
	const properties = "Id,LoadState,UnitFileState,ActiveState,SubState,Result,NRestarts,ExecMainStatus,InvocationID,StateChangeTimestamp,ExecMainStartTimestamp,ExecMainExitTimestamp,FragmentPath,DropInPaths,NeedDaemonReload,After,PartOf,Requires"
	return output(ctx, "systemctl", append([]string{"show", "--no-pager", "--property=" + properties, "--"}, units...)...)
}
