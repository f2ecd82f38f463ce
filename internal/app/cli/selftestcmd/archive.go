package selftestcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"dcm/internal/app/cli/bundle"
	"dcm/internal/app/selftest"
	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/frontends/supportbundle"
	"dcm/internal/gpu/record"
	"dcm/internal/linux/atomicfile"
)

// readme heads the archive's list of contents.
const readme = `Result of a self-test of dcm, for its maintainers. It has no names of hosts, users, units or
processes, no serial numbers, and no data of other programs. Send it to ` + maintainers + `.
`

// pack writes the archive of a test.
func pack(ctx context.Context, e *test, file string) error {
	packed, err := packed(ctx, e)
	switch {
	case err != nil:
		return err
	case file == "-":
		_, err := e.out.Write(packed)
		return err
	}
	if err := atomicfile.Write(file, packed, atomicfile.Options{Mode: 0o600}); err != nil {
		return fmt.Errorf("cannot write %s: %w", file, err)
	}
	return nil
}

// packed returns the archive of a test.
func packed(ctx context.Context, e *test) ([]byte, error) {
	e.names.addHost(e.host)
	if e.config != nil {
		e.names.addClients(host.Clients(e.host, e.config))
	}
	names := e.names.all()
	part := func(name, from string, read func(context.Context) ([]byte, error)) supportbundle.Part {
		return supportbundle.Part{Name: name, Description: from, Read: func(ctx context.Context) ([]byte, error) {
			content, err := read(ctx)
			return []byte(names.Remove(string(content))), clean(names, err)
		}}
	}
	value := func(v any) func(context.Context) ([]byte, error) {
		return func(context.Context) ([]byte, error) { return json.MarshalIndent(v, "", "  ") }
	}
	parts := []supportbundle.Part{
		{Name: "result.json", Description: "the whole result", Read: value(anonymous(e.result, names))},
		{Name: "facts.json", Description: "observed facts, in the form of the simulator's claims", Read: value(e.facts)},
		part("table.txt", "facts that the simulator claims, and observed ones", func(context.Context) ([]byte, error) { return []byte(selftest.Text(e.result.Table)), nil }),
		part("versions.txt", "kernel, driver, firmware, distribution, systemd", func(ctx context.Context) ([]byte, error) { return versions(ctx, e.host, e.config) }),
		part("kernel.txt", "the kernel's lines on the GPUs, in each reload of the driver or since the boot", func(ctx context.Context) ([]byte, error) { return kernelLines(ctx, e.host, e.reloads) }),
		part("profiles.toml", "the profiles that were applied", func(context.Context) ([]byte, error) { return e.profiles, nil }),
		part("record.json", "what the GPUs answer; dcm plan PROFILE --node record.json plans for it", func(ctx context.Context) ([]byte, error) { return recordOf(ctx, e.host, e.config).Text() }),
	}
	var packed bytes.Buffer
	dir := "dcm-selftest-" + e.result.Began.Format("20060102T150405")
	err := supportbundle.Write(ctx, &packed, dir, e.result.Ended, readme, parts)
	return packed.Bytes(), err
}

func clean(names record.Names, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s", names.Remove(err.Error()))
}

// anonymous returns the result without names.
func anonymous(r selftest.Result, names record.Names) selftest.Result {
	r.Checks = slices.Clone(r.Checks)
	for i := range r.Checks {
		r.Checks[i].Named, r.Checks[i].Text = "", names.Remove(r.Checks[i].Text)
	}
	r.Libraries = slices.Clone(r.Libraries)
	for i := range r.Libraries {
		r.Libraries[i] = names.Remove(r.Libraries[i])
	}
	return r
}

// versions returns the versions of the programs, and of each GPU's firmware.
func versions(ctx context.Context, h *host.Host, cfg *config.Config) ([]byte, error) {
	out, err := bundle.Versions(ctx, h)
	for _, f := range recordOf(ctx, h, cfg).Files {
		if isFirmware(f.Path) && f.Text != "" {
			out = fmt.Appendf(out, "%s: %s\n", f.Path, strings.ReplaceAll(strings.TrimSpace(f.Text), "\n", "\n    "))
		}
	}
	return out, err
}

// isFirmware reports whether a recorded file has the version of the firmware or VBIOS of a GPU, or of its
// driver.
func isFirmware(path string) bool {
	for _, word := range []string{"/vbios_version", "/fw_version/", "/proc/driver/nvidia/version", "/information", "/sys/module/amdgpu/"} {
		if strings.Contains(path, word) {
			return true
		}
	}
	return false
}

// recordOf returns what the GPUs answer.
func recordOf(ctx context.Context, h *host.Host, cfg *config.Config) record.Record {
	return record.Take(ctx, host.RecordSource(h, cfg), time.Now())
}

// kernelLines returns the kernel's lines on the GPUs: those of each reload of the driver, or without a
// reload those since the boot.
func kernelLines(ctx context.Context, h *host.Host, reloads []reload) ([]byte, error) {
	if !h.Here() {
		return nil, host.ErrOtherRoot
	}
	if len(reloads) == 0 {
		lines, err := bundle.KernelLines(ctx, h, time.Time{}, time.Time{})
		return withoutProcesses(lines), err
	}
	var out []byte
	for _, r := range reloads {
		lines, err := bundle.KernelLines(ctx, h, r.from, r.until)
		if err != nil {
			return out, err
		}
		out = fmt.Appendf(out, "reload for %s, %s:\n%s\n", r.to, r.until.Sub(r.from).Round(time.Millisecond), withoutProcesses(lines))
	}
	return out, nil
}
