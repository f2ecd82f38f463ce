package packaging_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// dcm-change.service runs the program of dcm-apply.service and repeats its [Service] section,
// since systemd units cannot include each other. Only these settings differ. A change of
// single GPUs loads no kernel module.
func TestUnits_ChangeHasSandboxOfApply(t *testing.T) {
	apply, change := serviceSettings(t, "dcm-apply.service"), serviceSettings(t, "dcm-change.service")
	differ := map[string][2]string{
		"ExecStart":             {"/usr/libexec/dcm/dcm-service oneshot", "/usr/libexec/dcm/dcm-service change"},
		"CapabilityBoundingSet": {"CAP_SYS_MODULE CAP_SYS_PTRACE CAP_DAC_READ_SEARCH", "CAP_SYS_PTRACE CAP_DAC_READ_SEARCH"},
		"ProtectKernelModules":  {"", "yes"},
		"SystemCallFilter":      {"@system-service @module seccomp\n~@resources", "@system-service seccomp\n~@resources"},
	}
	both := maps.Clone(apply)
	maps.Copy(both, change)
	for _, key := range slices.Sorted(maps.Keys(both)) {
		want, listed := differ[key]
		if !listed {
			want = [2]string{apply[key], apply[key]}
		}
		if got := [2]string{apply[key], change[key]}; got != want {
			t.Errorf("%s= of dcm-apply.service and dcm-change.service: got %q, want %q", key, got, want)
		}
	}
}

// serviceSettings returns the settings in the [Service] section of a unit file of dcm. The
// values of a repeated setting are joined by newlines.
func serviceSettings(t *testing.T, unit string) map[string]string {
	t.Helper()
	_, section, found := strings.Cut(read(t, "../systemd/"+unit), "\n[Service]\n")
	section, _, _ = strings.Cut(section, "\n[")
	settings := map[string]string{}
	for _, line := range regexp.MustCompile(`(?m)^([A-Za-z]+)=(.*)$`).FindAllStringSubmatch(section, -1) {
		if before, repeated := settings[line[1]]; repeated {
			line[2] = before + "\n" + line[2]
		}
		settings[line[1]] = line[2]
	}
	if !found || len(settings) == 0 {
		t.Fatalf("%s: no settings found in [Service]", unit)
	}
	return settings
}
