package bundle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"dcm/internal/engine/host"
	"dcm/internal/linux/unitname"
	"dcm/internal/sanitize"
)

// journalFields are the exported fields. Command lines are excluded, since those of a hook may
// contain secrets.
const journalFields = "MESSAGE,MESSAGE_ID,PRIORITY,SYSLOG_IDENTIFIER,UNIT,_PID,_SYSTEMD_UNIT,_SYSTEMD_INVOCATION_ID,INVOCATION_ID,JOB_RESULT,JOB_TYPE,EXIT_CODE,EXIT_STATUS,UNIT_RESULT," +
	"DCM_PROFILE,DCM_GPU,DCM_FROM,DCM_TO,DCM_RUN,DCM_STEP,DCM_RESULT,DCM_ERROR,DCM_HINT,DCM_TOOK,DCM_UNIT,DCM_BEFORE,DCM_NOW,DCM_RESTARTS,DCM_REASON,DCM_ASKED,DCM_UID,DCM_USER,DCM_SUDO,DCM_LOGIN,DCM_BY_UNIT"

// journalOf reads the journal of dcm's units in a format.
func journalOf(options ...string) func(context.Context) ([]byte, error) {
	all := append([]string{"--no-pager", "--quiet", "--lines=5000"}, options...)
	for _, unit := range withInstances(unitname.All()) {
		all = append(all, "--unit="+unit)
	}
	return func(ctx context.Context) ([]byte, error) { return output(ctx, "journalctl", all...) }
}

// KernelLines returns the kernel's messages about GPUs, and those of the generator, since the boot or
// between two times if they are not zero. Old versions of journalctl cannot search.
func KernelLines(ctx context.Context, h *host.Host, from, until time.Time) ([]byte, error) {
	words := []string{"dcm-generator"}
	for _, t := range host.OpenNode(h, nil).Drivers().Traits() {
		words = append(words, t.KernelLogWords...)
	}
	args := []string{"--no-pager", "--quiet", "--dmesg", "--boot", "--output=short-monotonic"}
	if !from.IsZero() {
		// journalctl has no fractions of a second for --until before systemd 254.
		args = append(args, fmt.Sprintf("--since=@%d", from.Unix()), fmt.Sprintf("--until=@%d", until.Unix()+1))
	}
	all, err := output(ctx, "journalctl", args...)
	var out []byte
	for line := range bytes.Lines(all) {
		for _, word := range words {
			if bytes.Contains(line, []byte(word)) {
				out = append(out, line...)
				break
			}
		}
	}
	if out == nil && err == nil {
		out = []byte{}
	}
	return out, err
}

// output runs a program and returns its standard output, even if it then fails.
func output(ctx context.Context, program string, arguments ...string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, program, arguments...).Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) && len(failed.Stderr) > 0 {
		err = fmt.Errorf("%w: %s", err, sanitize.Lines(strings.TrimSpace(string(failed.Stderr))))
	}
	if len(out) == 0 && err != nil {
		return nil, err
	}
	return out, err
}

// Versions returns the versions of all components. Of the kernel command line, which may
// contain secrets, it returns only dcm's own parameters.
func Versions(ctx context.Context, h *host.Host) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString(VersionText(h, host.Libraries(ctx, h)))
	files, prefixes := []string{"proc/sys/kernel/osrelease"}, []string{"dcm."}
	for _, t := range host.OpenNode(h, nil).Drivers().Traits() {
		files = append(files, filepath.Join("sys/module", t.Driver, "version"))
		prefixes = append(prefixes, t.Driver+".")
	}
	for _, path := range append(files, "etc/os-release") {
		if text, err := os.ReadFile(h.Path(path)); err == nil {
			fmt.Fprintf(&out, "%s: %s\n", path, strings.TrimSpace(string(text)))
		}
	}
	cmdline, err := os.ReadFile(h.Path("proc/cmdline"))
	for word := range strings.FieldsSeq(string(cmdline)) {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(word, p) }) {
			fmt.Fprintln(&out, "kernel command line:", word)
		}
	}
	systemd, _ := output(ctx, "systemctl", "--version") // its absence shows
	out.Write(systemd)
	return out.Bytes(), err
}

// unitStates returns the states of the units and the paths of their files, but not their
// settings, which may contain secrets.
func unitStates(ctx context.Context, h *host.Host) ([]byte, error) {
	units := unitname.All()
	if cfg, err := h.Config(); err == nil {
		units = append(units, host.Clients(h, cfg)...)
	}
	const properties = "Id,LoadState,UnitFileState,ActiveState,SubState,Result,NRestarts,ExecMainStatus,InvocationID,StateChangeTimestamp,ExecMainStartTimestamp,ExecMainExitTimestamp,FragmentPath,DropInPaths,NeedDaemonReload,After,PartOf,Requires"
	return output(ctx, "systemctl", append([]string{"show", "--no-pager", "--property=" + properties, "--"}, withInstances(units)...)...)
}

// withInstances replaces the templates among units by patterns for their instances.
func withInstances(units []string) []string {
	out := make([]string, len(units))
	for i, u := range units {
		out[i] = strings.Replace(u, "@.", "@*.", 1)
	}
	return out
}
