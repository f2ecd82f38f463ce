package vm_test

import "strings"

// mappedMemory: a process that closed its file but has its memory mapped is a holder.
func mappedMemory(m machine) {
	m.run("systemd-run --quiet --unit=training e2e-agent mapped /dev/dri/renderD128 /run/mapped")
	m.await("/run/mapped", "mapped")
	m.refused("training.service")
	m.run("systemctl stop training")
	m.use("cpx-nps4")
	m.expect(modes, split)
}

// textConsole: the kernel's text console on a GPU keeps the driver loaded. dcm names it, and makes the
// change after the console is unbound.
func textConsole(m machine) {
	m.run("echo 'options amdgpu console=1' >/etc/modprobe.d/console.conf")
	m.run("systemctl stop " + clients + " && " + unloadDriver + " && modprobe amdgpu && systemctl start " + clients)
	m.expect("cat /sys/class/graphics/fb0/name", "amdgpudrmfb")
	m.refused("text console")
	m.run("echo 0 >/sys/class/vtconsole/vtcon1/bind")
	m.use("cpx-nps4")
	m.expect(modes, split)
	m.expect(allClients, allActive)
}

// inFlight: a file that was sent over a socket and closed by its sender belongs to no process. dcm reports
// that the driver is in use, and makes the change when that ends.
func inFlight(m machine) {
	m.run("systemd-run --quiet --unit=training e2e-agent flight /dev/dri/renderD128 /run/flight")
	m.await("/run/flight", "in flight")
	m.refused("")
	m.await("/run/dcm/state.json", `"unseen"`)
	m.run("systemctl stop training")
	m.use("cpx-nps4")
	m.expect(modes, split)
	m.expect(allClients, allActive)
}

// refused expects that no memory mode is changed, and that the error names the holder.
func (m machine) refused(holder string) {
	m.t.Helper()
	if r := m.try("dcm use cpx-nps4"); r.Code == 0 || !strings.Contains(r.Stderr, holder) {
		m.t.Errorf("dcm use: exit status %d, want a failure that names %q:\n%s%s", r.Code, holder, r.Stdout, r.Stderr)
	}
	m.expect(modes, whole)
	m.expect(allClients, allActive)
}
