package vm_test

// appArmor: changes, the guard and leases work with AppArmor enforced for a client.
func appArmor(m machine) {
	m.expect("cat /sys/module/apparmor/parameters/enabled", "Y")
	m.run(`cat >/etc/apparmor.d/gpu-client <<'END'
include <tunables/global>
profile gpu-client /usr/local/bin/gpu-client {
  include <abstractions/base>
  /usr/local/bin/gpu-client r,
  /{,usr/}bin/** rix,
  /dev/kfd rw,
}
END
apparmor_parser --replace /etc/apparmor.d/gpu-client && systemctl restart gpuagent`)
	label := `cat /proc/$(systemctl show --property=MainPID --value gpuagent)/attr/current`
	if got := m.run(label); got != "gpu-client (enforce)" {
		m.t.Errorf("the client runs as %q", got)
	}
	m.guardWorks("cpx-nps4")
	m.expect(modes, split)
	m.expect(allClients, allActive)
	if got := m.run(label); got != "gpu-client (enforce)" {
		m.t.Errorf("after the change the client runs as %q", got)
	}
	m.run("dcm run -n 1 -- true")
	m.expect(`journalctl --boot --output=cat | grep -c 'apparmor="DENIED"' || :`, "0")
}

// lockdown: changes, the guard and leases work in both modes of kernel lockdown. The lockdown begins after the
// boot. It forbids loading the unsigned driver of this test, so nothing here reloads the driver.
func lockdown(m machine) {
	m.run(`printf '[profiles.split]\nmemory = "NPS1"\ncompute = "CPX"\n[profiles.halves]\nmemory = "NPS1"\ncompute = "DPX"\n' >>/etc/dcm/dcm.toml`)
	m.run("echo integrity >/sys/kernel/security/lockdown")
	m.expect("cat /sys/kernel/security/lockdown", "none [integrity] confidentiality")
	m.guardWorks("split")
	m.expect(modes, "2 CPX 2 NPS1")
	m.run("dcm run -n 1 -- true")
	m.run("echo confidentiality >/sys/kernel/security/lockdown")
	m.use("halves")
	m.expect(modes, "2 DPX 2 NPS1")
	m.run("systemctl restart dcm dcm-reserve holder")
	m.guarded()
	m.run("dcm run -n 1 -- true")
	m.expect(allClients, allActive)
}
