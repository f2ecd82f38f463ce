package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/config/configtest"
	"dcm/internal/engine/config/source"
)

// Each is a dcm.toml over the shipped profiles, and everything that Load says of
// it, without the file's path.
var bad = []struct{ name, text, want string }{
	{"no such profile", "version = 1\n\nprofile = \"cpx-nsp4\"\n",
		`:3: profile = "cpx-nsp4": no such profile; did you mean "cpx-nps4"? accepted: cpx-nps1, cpx-nps2, cpx-nps4, dpx-nps1, dpx-nps2, qpx-nps1, qpx-nps2, qpx-nps4, spx-nps1, tpx-nps1`},
	{"several equally near", `profile = "cpx-nps7"`,
		`:1: profile = "cpx-nps7": no such profile; accepted: cpx-nps1, cpx-nps2, cpx-nps4, dpx-nps1, dpx-nps2, qpx-nps1, qpx-nps2, qpx-nps4, spx-nps1, tpx-nps1, all-disabled, all-enabled, all-balanced, all-INSTANCE such as all-1g.10gb`},
	{"profile of another type", "profile = 3", `:1: profile = 3: must be a string, not an integer`},
	{"newer version", "version = 2", `:1: version = 2: version not supported; accepted: 1`},
	{"version as text", `version = "1"`, `:1: version = "1": must be the integer 1, not a string`},
	{"unknown key", "[clients]\nunit = []", `:2: clients.unit: unknown key; did you mean "units"? accepted: discover, require, units`},
	{"unknown table", "[aply]\nreboot = \"once\"", `:1: aply: unknown key; did you mean "apply"? accepted: agent, apply, budget, client, clients, daemon, gpu, guard, leases, metrics, profile, profiles, reservation, version`},
	{"key of another table", "[apply]\nunits = [\"a\"]", `:2: apply.units: wrong section: this key belongs in [budget] or [clients]; accepted: at-load, device-timeout, on-failure, reboot, reload-driver, settle-time, unit-of-change`},
	{"key below a table", "[clients]\n\nprofile = \"cpx-nps4\"", `:3: clients.profile = "cpx-nps4": wrong section: this key belongs at the top of the file, above the first [table]; accepted: discover, require, units`},
	{"scalar for a table", "clients = [\"gpuagent\"]", `:1: clients: must be a table, not an array`},
	{"string for an array", "[clients]\nunits = \"gpuagent\"", `:2: clients.units = "gpuagent": must be an array, not a string`},
	{"string for a boolean", "[apply]\nreload-driver = \"yes\"", `:2: apply.reload-driver = "yes": must be true or false, not a string`},
	{"user reservation", "[[reservation]]\nuser = \"a b\"\nwhen = \"8..18\"\npartitions = 2\n[[reservation]]\nuser = \"alice\"\n[[reservation]]\nname = \"x\"\npartitions = 1\nwhen = \"Mon\"",
		`:1: reservation: gpus is missing; accepted: gpus = [0, 2]
:2: reservation.user = "a b": not a user's name; accepted: a name such as "alice", or a number such as "1000"
:3: reservation.when = "8..18": not hours of a week; accepted: days of the week, a time of day, or both, such as "Mon..Fri 08:00..18:00", "Sat,Sun" or "22:00..06:00"
:4: reservation.partitions = 2: cannot be combined with user; accepted: user, gpus and when
:5: reservation: gpus is missing; accepted: gpus = [0, 2]
:10: reservation.when = "Mon": when is valid only with user; accepted: user = "alice"`},
	{"unknown value", "[apply]\non-failure = \"rolback\"\nreboot = \"always\"",
		`:2: apply.on-failure = "rolback": not a known value; did you mean "rollback"? accepted: rollback, keep
:3: apply.reboot = "always": not a known value; accepted: never, once`},
	{"value in another case", "[profiles.x]\ncompute = \"cpx\"", `:2: profiles.x.compute = "cpx": not a compute partition mode; did you mean "CPX"? accepted: SPX, DPX, TPX, QPX, CPX`},
	{"date for a mode", "[profiles.x]\ncompute = 1979-05-27\nmemory = nan",
		`:2: profiles.x.compute: must be a string, not a date or time; accepted: SPX, DPX, TPX, QPX, CPX
:3: profiles.x.memory = NaN: must be a string, not a number with a fraction; accepted: NPS1, NPS2, NPS4, NPS8`},
	{"timeouts", "apply.device-timeout = 60", `:1: apply.device-timeout = 60: has no unit; did you mean "60s"? accepted: a duration from 1s to 1h, such as "60s", "2m" or "1m30s"`},
	{"timeout out of range", "apply.device-timeout = \"2h\"", `:1: apply.device-timeout = "2h": out of range; accepted: a duration from 1s to 1h, such as "60s", "2m" or "1m30s"`},
	{"timeout in words", "apply.device-timeout = \"5min\"", `:1: apply.device-timeout = "5min": not a duration; accepted: a duration from 1s to 1h, such as "60s", "2m" or "1m30s"`},
	{"backend and library", "[gpu]\nbackend = \"sysf\"\nlibrary = \"lib/x.so\"",
		`:2: gpu.backend = "sysf": not a backend; did you mean "sysfs"? accepted: auto, sysfs, amdsmi
:3: gpu.library = "lib/x.so": not a clean absolute path; accepted: a path such as "/opt/rocm/lib/libamd_smi.so", or "" for the usual places`},
	{"a count of GPUs", "[gpu]\ncount = -1", `:2: gpu.count = -1: not a number of GPUs; accepted: an integer from 1, or 0 for as many as there were at the last success`},
	{"a count that is text", "[gpu]\ncount = \"8\"", `:2: gpu.count = "8": must be an integer, not a string`},
	{"profile without modes", "[profiles.x]\nmemory = \"NPS1\"", "\x3a1: profiles.x: no compute mode set; accepted: compute = \"…\" for the whole node, or [[profiles.x.group]]; mig for NVIDIA's GPUs"},
	{"profile with both", "[profiles.x]\ncompute = \"SPX\"\n[[profiles.x.group]]\ncompute = \"CPX\"\ncount = \"rest\"",
		`:3: profiles.x.group: compute mode set twice, also at /etc/dcm/dcm.toml:2; accepted: either compute for the whole node, or groups`},
	{"groups over a shipped profile", "[[profiles.cpx-nps1.group]]\ncompute = \"CPX\"\ncount = 1",
		`:1: profiles.cpx-nps1.group: compute mode set twice, also at /usr/lib/dcm/dcm.toml.d/10-profiles.toml:46; accepted: either compute for the whole node, or groups`},
	{"names that are none", "profiles.none = {}\nprofiles.\"\" = {}\nprofiles.\"a\\nb\" = {}",
		`:1: profiles.none: reserved name: it selects no profile
:2: profiles."": the name is empty
:3: profiles."a\u000Ab": not a valid profile name; accepted: at most 64 bytes of printable text, without " and without blanks at its ends`},
	{"a MIG profile that is none", "[profiles.x]\nmig = { \"1g\" = 7, \"2g.20gb\" = 0, \"3g.40gb\" = \"2\" }", `:2: profiles.x.mig.1g = 7: not a MIG profile; accepted: names such as 1g.10gb, 1c.3g.40gb or 1g.10gb+me; dcm check lists those of a GPU
:2: profiles.x.mig."2g.20gb" = 0: not a number of instances; accepted: an integer from 1 to 64
:2: profiles.x.mig."3g.40gb" = "2": must be an integer, not a string`},
	{"MIG that is neither on nor off", "[profiles.x]\nmig = \"offf\"", `:2: profiles.x.mig = "offf": not a MIG geometry; did you mean "off"? accepted: "off", or a table with the number of instances of each MIG profile, such as { "3g.40gb" = 1, "1g.10gb" = 4 }`},
	{"MIG twice", "[profiles.x]\nmig = \"off\"\n[[profiles.x.group]]\nmig = {}\ncount = 1", `:3: profiles.x.group: MIG geometry set twice, also at /etc/dcm/dcm.toml:2; accepted: either mig for the whole node, or groups`},
	{"dynamic without MIG", "[[profiles.x.group]]\nmig = \"off\"\ncount = 1\ndynamic = true", `:4: profiles.x.group.dynamic = true: leases cannot divide a GPU without MIG; accepted: compute with the mode between leases, mig with the instances that always exist, or mig = {}`},
	{"a group of both vendors", "[[profiles.x.group]]\ncompute = \"CPX\"\nmig = {}\ncount = 1", `:3: profiles.x.group.mig: compute (AMD) and mig (NVIDIA) exclude each other`},
	{"a filter for AMD's", "[[profiles.x.group]]\ncompute = \"CPX\"\ndevice = \"0x2330\"\ncount = 1", `:3: profiles.x.group.device = "0x2330": valid only together with mig`},
	{"a filter that is none", "[[profiles.x.group]]\nmig = {}\ndevice = [\"0x233\", \"0x74a11002\", \"0x20b2:1533\"]\ncount = 1", `:3: profiles.x.group.device = "0x233": not an NVIDIA device id; accepted: a PCI device id such as "0x2330", or a device and a board id such as "0x20b2:0x1533"
:3: profiles.x.group.device = "0x74a11002": not an NVIDIA device id; accepted: a PCI device id such as "0x2330", or a device and a board id such as "0x20b2:0x1533"
:3: profiles.x.group.device = "0x20b2:1533": not a board id; accepted: a PCI device id such as "0x2330", or a device and a board id such as "0x20b2:0x1533"`},
	{"the rest of a device twice", "[[profiles.x.group]]\nmig = {}\ndevice = \"0x2330\"\ncount = \"rest\"\n[[profiles.x.group]]\nmig = {}\ndevice = \"0x233010DE\"\ncount = \"rest\"\n[[profiles.x.group]]\nmig = {}\ncount = \"rest\"", `:8: profiles.x.group.count = "rest": the rest of the devices "0x2330" is already taken by the group on line 4`},
	{"memory in a group", "[[profiles.x.group]]\ncompute = \"CPX\"\nmemory = \"NPS4\"\ncount = 1", `:3: profiles.x.group.memory = "NPS4": wrong section: this key belongs in [profiles.NAME]; accepted: compute, count, device, dynamic, gpus, isolation, memory-allocation, mig`},
	{"unknown memory allocation", "[profiles.x]\ncompute = \"CPX\"\nmemory-allocation = \"ALL\"", `:3: profiles.x.memory-allocation = "ALL": not a memory allocation; did you mean "all"? accepted: capping, all`},
	{"memory allocation of NVIDIA", "[[profiles.x.group]]\nmig = \"off\"\ncount = 1\nmemory-allocation = \"all\"", `:4: profiles.x.group.memory-allocation = "all": valid only together with compute: it is a setting of AMD GPUs`},
	{"isolation of NVIDIA", "[[profiles.x.group]]\nmig = \"off\"\ncount = 1\nisolation = true", `:4: profiles.x.group.isolation = true: valid only together with compute: it is a setting of AMD GPUs`},
	{"isolation in words", "[profiles.x]\ncompute = \"CPX\"\nisolation = \"on\"", `:3: profiles.x.isolation = "on": must be true or false, not a string`},
	{"groups that say too little or too much", "[[profiles.x.group]]\ncount = 1\ngpus = [1]\n[[profiles.x.group]]\ncompute = \"CPX\"\n[[profiles.x.group]]\ncompute = \"CPX\"\ngpus = []",
		`:1: profiles.x.group: compute is missing; accepted: compute = "…" with one of SPX, DPX, TPX, QPX, CPX, or mig for NVIDIA's GPUs
:1: profiles.x.group: count and gpus exclude each other
:4: profiles.x.group: count or gpus is missing; accepted: count = 2, count = "rest", gpus = ["0000:0c:00.0"]
:8: profiles.x.group.gpus: the list is empty`},
	{"counts", "[profiles.x]\ngroup = [\n {compute = \"CPX\", count = 0},\n {compute = \"CPX\", count = \"rset\"},\n {compute = \"CPX\", count = 1.5},\n]",
		`:3: profiles.x.group.count = 0: not a number of GPUs; accepted: an integer from 1, or "rest"
:4: profiles.x.group.count = "rset": not a number of GPUs; did you mean "rest"? accepted: an integer from 1, or "rest"
:5: profiles.x.group.count = 1.5: must be an integer from 1, or "rest", not a number with a fraction`},
	{"two rests", "[profiles.x]\ngroup = [\n {compute = \"CPX\", count = \"rest\"},\n {compute = \"SPX\", count = \"rest\"},\n {compute = \"SPX\", count = 1},\n]",
		`:4: profiles.x.group.count = "rest": the rest is already taken by the group on line 3`},
	{"no group", "[profiles.x]\ngroup = []", `:2: profiles.x.group: the list is empty`},
	{"selectors", "[profiles.x]\ncompute = \"SPX\"\nskip = [\n \"0000:c5:00.0\",\n \"C5:00.0\",\n \"3\",\n -1,\n \"gpu0\",\n true,\n]",
		`:5: profiles.x.skip = "C5:00.0": GPU 0000:c5:00.0 is listed twice, first on line 4; accepted: each GPU once
:6: profiles.x.skip = "3": an index is written without quotes; accepted: PCI addresses such as "0000:0c:00.0", indices in PCI order such as 0
:7: profiles.x.skip = -1: not a GPU; accepted: PCI addresses such as "0000:0c:00.0", indices in PCI order such as 0
:8: profiles.x.skip = "gpu0": not a GPU; accepted: PCI addresses such as "0000:0c:00.0", indices in PCI order such as 0
:9: profiles.x.skip = true: not a GPU; accepted: PCI addresses such as "0000:0c:00.0", indices in PCI order such as 0`},
	{"a GPU's device for leases", "[leases]\ndevices = [\"/dev/fuse\",\n \"/dev/kfd\"]\n[leases.groups.mpi]\ndevices = [\"/dev/n*\"]",
		`:3: leases.devices = "/dev/kfd": device nodes of GPUs, of memory, or in a directory that users can write; accepted: device nodes that belong to no GPU, such as "/dev/fuse" or "/dev/infiniband/uverbs*"
:5: leases.groups.mpi.devices = "/dev/n*": also matches device nodes of GPUs, or of memory; accepted: device nodes that belong to no GPU, such as "/dev/fuse" or "/dev/infiniband/uverbs*"`},
	{"no directory for metrics", "[metrics]\ntextfile = \"metrics/\"", `:2: metrics.textfile = "metrics/": not a clean absolute path; accepted: a directory such as "/var/lib/node_exporter/textfile", "off", or "" for the usual one`},
	{"unknown discovery", "[clients]\ndiscover = \"on\"", `:2: clients.discover = "on": not a known value; accepted: report, include, off`},
	{"not TOML", "version = 1\nprofile = cpx", `:2: not TOML: expected value but found "cpx" instead`},
	{"number beyond 64 bits", "version = 1\n[apply]\nhistory = 99999999999999999999", `:3: apply.history = 99999999999999999999: not TOML: out of range for int64`},
	{"key given twice", "profile = \"cpx-nps4\"\n\nprofile = \"spx-nps1\"", `:3: not TOML: key 'profile' has already been defined`},
	{"several errors", "profile = \"spx-nps\"\nprofil = 1\n[apply]\nreboot = true\n[profiles.x]\ncompute = \"CPXX\"\n",
		`:1: profile = "spx-nps": no such profile; did you mean "spx-nps1"? accepted: cpx-nps1, cpx-nps2, cpx-nps4, dpx-nps1, dpx-nps2, qpx-nps1, qpx-nps2, qpx-nps4, spx-nps1, tpx-nps1, x
:2: profil = 1: unknown key; did you mean "profile"? accepted: agent, apply, budget, client, clients, daemon, gpu, guard, leases, metrics, profile, profiles, reservation, version
:4: apply.reboot = true: must be a string, not a boolean; accepted: never, once
:6: profiles.x.compute = "CPXX": not a compute partition mode; did you mean "CPX"? accepted: SPX, DPX, TPX, QPX, CPX`},
}

func TestLoad_BadFiles(t *testing.T) {
	base := shipped(t)
	for _, test := range bad {
		t.Run(test.name, func(t *testing.T) {
			base["etc/dcm/dcm.toml"] = test.text
			got := configtest.Complaint(t, base.Write(t))
			got = strings.TrimPrefix(strings.ReplaceAll(got, "\n/etc/dcm/dcm.toml:", "\n:"), "/etc/dcm/dcm.toml")
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLoad_ReportsProblemsOfAllFiles(t *testing.T) {
	p := configtest.Files{
		"usr/lib/dcm/dcm.toml.d/10.toml": "[profiles.a]\ncompute = \"SPX\"\n",
		"etc/dcm/config.json":            "{\n\"gpu-config-profiles\": {\n}, \"x\": 1}",
		"etc/dcm/dcm.toml":               "profile = \"aa\"\n[apply]\nrebot = \"once\"\n",
		"etc/dcm/dcm.toml.d/10.toml":     "[clients\n",
		"etc/dcm/dcm.toml.d/20.toml":     "[clients]\nunits = [\"a b\"]\n",
		"run/dcm/dcm.toml.d/10.toml":     "version = 7\n",
		"proc/cmdline":                   "quiet dcm.profile=b\n",
	}.Write(t)
	want := `/etc/dcm/config.json:3: x = 1: unknown key; accepted: gpu-config-profiles, gpuClientSystemdServices
/etc/dcm/dcm.toml:1: profile = "aa": no such profile in the files that can be read; accepted: a, all-disabled, all-enabled, all-balanced, all-INSTANCE such as all-1g.10gb
/etc/dcm/dcm.toml:3: apply.rebot = "once": unknown key; did you mean "reboot"? accepted: at-load, device-timeout, on-failure, reboot, reload-driver, settle-time, unit-of-change
/etc/dcm/dcm.toml.d/10.toml:1: not TOML: expected '.' or ']' to end table name, but got '\n' instead
/etc/dcm/dcm.toml.d/20.toml:2: clients.units = "a b": not a unit name: ' ' cannot be in one; accepted: letters, digits and :-_.\@ (systemd-escape --mangle writes the rest)
/run/dcm/dcm.toml.d/10.toml:1: version = 7: version not supported; accepted: 1
kernel command line: dcm.profile = "b": no such profile in the files that can be read; accepted: a, all-disabled, all-enabled, all-balanced, all-INSTANCE such as all-1g.10gb`
	if diff := cmp.Diff(want, configtest.Complaint(t, p)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

// Several similar names do not displace the text of the fault.
func TestLoad_SuggestsSeveralProfiles(t *testing.T) {
	p := configtest.Files{
		"etc/dcm/dcm.toml":           "profile = \"cpx\"\n[profiles.cpx-nps1]\ncompute = \"CPX\"\n[profiles.cpx-nps4]\ncompute = \"CPX\"\n",
		"etc/dcm/dcm.toml.d/10.toml": "[clients\n",
	}.Write(t)
	want := `/etc/dcm/dcm.toml:1: profile = "cpx": no such profile in the files that can be read; did you mean "cpx-nps1" or "cpx-nps4"? accepted: cpx-nps1, cpx-nps4
/etc/dcm/dcm.toml.d/10.toml:1: not TOML: expected '.' or ']' to end table name, but got '\n' instead`
	if diff := cmp.Diff(want, configtest.Complaint(t, p)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

// The units' program has no decoder of YAML.
func TestLoad_RefusesYAMLConfigMap(t *testing.T) {
	p := configtest.Files{"etc/dcm/config.json": "kind: ConfigMap\ndata:\n  config.json: |\n    {}\n"}.Write(t)
	want := "/etc/dcm/config.json:1: not JSON; accepted: the Kubernetes form in JSON; `dcm import` turns a ConfigMap in YAML into TOML"
	if diff := cmp.Diff(want, configtest.Complaint(t, p)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestLoad_ChecksHiddenValue(t *testing.T) {
	p := configtest.Files{
		"etc/dcm/dcm.toml":           "[apply]\nreboot = \"twice\"\n",
		"etc/dcm/dcm.toml.d/10.toml": "[apply]\nreboot = \"once\"\n",
	}.Write(t)
	want := `/etc/dcm/dcm.toml:2: apply.reboot = "twice": not a known value; accepted: never, once`
	if diff := cmp.Diff(want, configtest.Complaint(t, p)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestErrors_LimitsLength(t *testing.T) {
	p := configtest.Files{"etc/dcm/dcm.toml": "[profiles.x]\ncompute = \"SPX\"\nskip = [" + strings.Repeat("\"x\",\n", 250) + "]\n"}.Write(t)
	lines := strings.Split(configtest.Complaint(t, p), "\n")
	if len(lines) != source.MaxShown+1 || lines[source.MaxShown] != "and 150 more problems" {
		t.Errorf("%d lines, the last is %q", len(lines), lines[len(lines)-1])
	}
}
