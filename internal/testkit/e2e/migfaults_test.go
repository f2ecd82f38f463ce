package e2e_test

import (
	"os"
	"slices"
	"strings"

	"dcm/internal/engine/runstate"
	"dcm/internal/testkit/e2e"
)

// knob switches a fault of the stand-in on, or all of them off.
func (m machine) knob(text string) {
	m.t.Helper()
	m.run(`file=$1; [ -n "$2" ] && { flock $file.lock sh -c 'echo "knob $2" >>$1' sh "$file" "$2"; exit; }
		flock $file.lock sed -i '/^knob/d' $file`, e2e.MIGState, text)
}

func migFails(m machine) {
	m.chosen("mixed", of80())
	before, want := m.units(agentUnit), m.mig()
	m.knob("fail nvmlDeviceCreateGpuInstanceWithPlacement 23 0 1 0000:52:00.0")
	r := m.try("dcm apply double")
	m.knob("")
	run := m.lastRun()
	if r.Code == 0 || run.Result != runstate.RolledBack || !strings.Contains(run.Error.Text, "0000:52:00.0") || !strings.Contains(run.Error.Text, "insufficient resources") {
		m.t.Errorf("failed change: want rolled-back with the GPU, got %d, %s, %+v", r.Code, run.Result, run.Error)
	}
	if got := m.mig(); !slices.Equal(got, want) {
		m.t.Errorf("geometry: got %q, want %q", got, want)
	}
	m.bounced(before)
}

func migDrift(m machine) {
	m.put("/etc/systemd/system/dcm.service.d/fast.conf", "[Service]\nWatchdogSec=20s\n")
	m.run("systemctl daemon-reload")
	m.chosen("mixed", of80())
	want, before := m.mig(), m.lastRun().ID
	m.run(`systemctl stop gpuagent; /usr/libexec/dcm/dcm-nvml '{"do":"clear","gpu":"0000:61:00.0"}'; systemctl start gpuagent`)
	m.until(`! grep -q "$1" /run/dcm/report.json && grep '"result": "applied"' /run/dcm/report.json`, before)
	m.applied("mixed")
	if got := m.mig(); !slices.Equal(got, want) {
		m.t.Errorf("geometry: got %q, want %q", got, want)
	}
	m.run("rm /etc/systemd/system/dcm.service.d/fast.conf; systemctl daemon-reload; systemctl restart dcm")
}

func migHeld(m machine) {
	m.chosen("mixed", of80())
	m.run("rm -f /run/held")
	m.run("systemd-run --unit=training sh -c 'exec 3</dev/nvidia2; echo held >/run/held; exec sleep infinity'")
	m.await("/run/held", "held")
	want := m.mig()
	r := m.try("dcm apply small")
	if r.Code == 0 || !strings.Contains(r.Stdout+r.Stderr, "training.service") {
		m.t.Errorf("exit status %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	if got := m.mig(); !slices.Equal(got, want) {
		m.t.Errorf("geometry: got %q, want %q", got, want)
	}
	if got := m.run("dcm holders"); !strings.Contains(got, "/dev/nvidia2") || !strings.Contains(got, "training.service") {
		m.t.Errorf("dcm holders: want the holder, got:\n%s", got)
	}
	m.run("systemctl stop training")
	m.applied("small")
	m.divided("7 × 1g.10gb", 7)
}

func migRival(m machine) {
	m.chosen("small", of80())
	m.put("/etc/systemd/system/nvidia-mig-manager.service", "[Service]\nType=oneshot\nExecStart=true\n[Install]\nWantedBy=multi-user.target\n")
	m.run("systemctl enable nvidia-mig-manager")
	r := m.try("dcm apply large")
	if r.Code == 0 || !strings.Contains(r.Stdout+r.Stderr, "systemctl mask --now nvidia-mig-manager.service") {
		m.t.Errorf("exit status %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	m.divided("7 × 1g.10gb", 7)
	m.run("rm /etc/systemd/system/nvidia-mig-manager.service; systemctl mask nvidia-mig-manager; dcm apply large")
	m.divided("7g.80gb", 1)
}

// migKilled kills a process during a step. Afterwards the profile is applied and the clients are
// active.
func migKilled(m machine) {
	m.chosen("mixed", of80())
	const (
		create, destroy, inside, mode = "nvmlDeviceCreateGpuInstanceWithPlacement", "nvmlGpuInstanceDestroy", "nvmlComputeInstanceDestroy", "nvmlDeviceSetMigMode"
		library                       = `for p in /proc/[0-9]*; do case $(tr '\0' ' ' <$p/cmdline) in */dcm-nvml\ --confined*) kill -KILL ${p#/proc/} ;; esac; done 2>/dev/null`
	)
	type killing struct{ profile, amid, step, kill string }
	list := []killing{
		{"large", create, "mig-fill", "systemctl kill -s TERM dcm-apply"},
		{"mixed", create, "mig-fill", library},
		{"large", create, "mig-fill", "systemctl kill -s KILL dbus; systemctl daemon-reexec"},
		{"small", create, "mig-fill", "systemctl kill -s KILL dcm; systemctl kill -s KILL dcm-apply"},
	}
	if os.Getenv(everyWay) != "" {
		list = append(list,
			killing{"off", inside, "mig-clear", "systemctl kill -s KILL dcm-apply"},
			killing{"mixed", mode, "mig-mode", "systemctl kill -s KILL dcm"},
			killing{"large", destroy, "mig-clear", "systemctl kill -s TERM dcm-apply"},
			killing{"off", mode, "mig-mode", library},
			killing{"small", mode, "mig-mode", "systemctl kill -s KILL dcm; systemctl kill -s KILL dcm-apply; systemctl daemon-reload"})
	}
	for _, s := range list {
		m.knob("hang " + s.amid)
		m.put(settings, geometries(s.profile, of80()))
		m.await("/run/dcm/report.json", `"result": "running"`, `"profile": "`+s.profile+`"`, `"`+s.step+`"`)
		m.run(s.kill)
		m.knob("")
		m.applied(s.profile)
		want := map[string]struct {
			geometry  string
			instances int
		}{"large": {"7g.80gb", 1}, "mixed": {"3g.40gb, 2g.20gb, 2 × 1g.10gb", 4}, "small": {"7 × 1g.10gb", 7}, "off": {"MIG off", 0}}[s.profile]
		m.divided(want.geometry, want.instances)
		if got := m.show(agentUnit, "ActiveState")["ActiveState"]; got != "active" {
			m.t.Errorf("%s during %s: want gpuagent active, got %s", s.kill, s.amid, got)
		}
	}
	// logind of systemd 257 has lost its bus name, which would delay a reboot by 50 s.
	m.run("systemctl try-restart systemd-logind")
}

func migDriver(m machine) {
	m.chosen("small", of80())
	// The devices that a driver registers when it is loaded, and a device list with them.
	m.put("/etc/systemd/system/dcm.service.d/late.conf", "[Service]\nBindReadOnlyPaths=/run/devices:/proc/devices\nDeviceAllow=/dev/late rw\n")
	m.run("cp /proc/devices /run/devices; systemctl daemon-reload")
	m.run("systemctl stop gpuagent amd-metrics-exporter dashboard; modprobe -r nvidia")
	if got := m.run("dcm gpus"); !strings.Contains(got, "nvidia driver") {
		m.t.Errorf("dcm gpus:\n%s", got)
	}
	if r := m.try("systemctl restart dcm"); r.Code == 0 {
		m.t.Error("start of dcm without the driver: want a failure")
	}
	m.until("systemctl is-active --quiet dcm")
	m.run("mknod -m 666 /dev/late c 508 77")
	if got := m.opens("dcm.service", "/dev/late"); got != "no" {
		m.t.Errorf("node that appears after the start of the daemon: want it closed, got %s", got)
	}
	m.run("echo 508 late >>/run/devices; modprobe nvidia")
	m.applied("small")
	if got := m.opens("dcm.service", "/dev/late"); got != "yes" {
		m.t.Errorf("node of a loaded driver: want it open for the daemon, got %s", got)
	}
	m.run("rm /dev/late /etc/systemd/system/dcm.service.d/late.conf; systemctl daemon-reload; systemctl restart dcm")
	m.divided("7 × 1g.10gb", 7)
	m.run("systemctl start gpuagent amd-metrics-exporter")
}

func migRebooted(m machine) {
	m.slice("small", 3)
	m.run("dcm apply")
	m.reboot()
	m.applied("small")
	m.divided("7 × 1g.10gb", 7)
	run := m.lastRun()
	if run.Result != runstate.Applied || len(run.Steps) != 16 {
		m.t.Errorf("run at boot: want applied with 16 steps, got %s with %d", run.Result, len(run.Steps))
	}
	m.dealt(3)
	m.run(`[ "$(systemctl show -P ActiveEnterTimestampMonotonic gpuagent)" -gt "$(systemctl show -P ActiveEnterTimestampMonotonic dcm-apply)" ]`)
}

// migKept: an A100 is reset for a change of its MIG mode, and keeps the mode over a reboot.
func migKept(m machine) {
	m.chosen("off", boards()["a100-8"])
	if got := m.try("dcm plan small --json").Stdout; !strings.Contains(got, `"reset": true`) {
		m.t.Errorf("dcm plan: want the reset, got:\n%s", got)
	}
	m.run("dcm use small")
	m.reboot()
	m.applied("small")
	m.divided("7 × 1g.10gb", 7)
	if run := m.lastRun(); len(run.Steps) != 8 {
		m.t.Errorf("after the reboot %d steps, want the mode kept, and 8", len(run.Steps))
	}
	m.knob("mode-activation 16")
	r := m.try("dcm apply off")
	m.knob("")
	if run := m.lastRun(); r.Code == 0 || run.Error == nil || !strings.Contains(run.Error.Hint, "eboot") {
		m.t.Errorf("change with a required reset: got exit status %d, %s, %+v", r.Code, run.Result, run.Error)
	}
	// With "leave" the host is rebooted instead. After the boot no process blocks the reset.
	m.knob("fail nvmlDeviceSetMigMode 16 0 8")
	m.run("rm -f /run/dcm/dcm.toml.d/* /var/lib/dcm/reboot.json; echo of another boot >/var/lib/dcm/lasts")
	m.put(settings, geometries("off", boards()["a100-8"])+"[apply]\nreboot = \"once\"\n")
	m.rebootedByItself()
	m.applied("off")
	m.divided("MIG off", 0)
}

// migDisplay: nvidia_drm with modeset=1 is unloaded while MIG is switched, and loaded again, even if the
// run is killed. A process that keeps it loaded is named, and no client stops.
func migDisplay(m machine) {
	const module = "/sys/module/nvidia_drm"
	m.chosen("off", of80())
	m.divided("MIG off", 0)
	m.run(`systemd-run --quiet --unit=session sh -c 'exec 3</dev/dri/renderD128; touch /run/session; exec sleep infinity'; e2e-agent await /run/session ""`)
	before := m.units(agentUnit)
	if r := m.try("dcm apply small"); r.Code == 0 || !strings.Contains(r.Stdout+r.Stderr, "session.service") {
		m.t.Errorf("with a session: want session.service named, got exit status %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	m.untouched(before)
	m.divided("MIG off", 0)
	m.run("systemctl stop session")
	m.applied("small")
	m.divided("7 × 1g.10gb", 7)
	m.run("cat " + module + "/parameters/modeset")
	for _, kill := range []string{"systemctl kill -s KILL dcm-apply", "systemctl kill -s KILL dcm; systemctl kill -s KILL dcm-apply", "systemctl kill -s TERM dcm-apply"} {
		m.knob("hang nvmlDeviceSetMigMode")
		profile, want, instances := "off", "MIG off", 0
		if m.lastRun().Profile == profile {
			profile, want, instances = "small", "7 × 1g.10gb", 7
		}
		m.run("rm -f /run/dcm/dcm.toml.d/*")
		m.put(settings, geometries(profile, of80()))
		m.await("/run/dcm/report.json", `"result": "running"`, `"profile": "`+profile+`"`, `"mig-mode"`, `"unloaded_modules"`)
		m.run(waitFor("[ ! -e " + module + " ]"))
		m.run(kill)
		m.knob("")
		m.applied(profile)
		m.divided(want, instances)
		m.run("cat " + module + "/parameters/modeset")
		if run := m.lastRun(); len(run.UnloadedModules) > 0 {
			m.t.Errorf("%s: left are %q", kill, run.UnloadedModules)
		}
	}
	profile := "off"
	if m.lastRun().Profile == profile {
		profile = "small"
	}
	m.put(settings, geometries(profile, of80())+"[apply]\nreload-driver = false\n")
	m.await("/run/dcm/state.json", `"phase": "failed"`, "reload-driver is false")
	m.run("cat " + module + "/parameters/modeset")
}
