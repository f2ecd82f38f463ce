package vm_test

import "fmt"

// systemdReexecuted: systemd re-executes itself while the driver is being loaded.
func systemdReexecuted(m machine) {
	for _, gpu := range []string{"0000:05:00.0", "0000:26:00.0"} {
		m.register(gpu, probeMS, 1000)
	}
	m.run(`exec bash -c "$@"`, changeUntil, "change", "cpx-nps4", "removed", "/dev/dri/renderD128")
	m.run("systemctl daemon-reexec")
	// The command waits for the change in progress.
	m.use("cpx-nps4")
	m.expect(modes, split)
	m.expect(allClients, allActive)
	m.expect("systemctl --failed --quiet --plain --no-legend", "")
}

// changeUntil selects the profile $1 and returns at the event $2 that $3 describes: a text in
// dcm.toml, a pattern of a journal entry in JSON, or a device. It does not end the programs that it
// started, which end with the machine. It searches the journal with grep, since journalctl of systemd
// 252 skips the first match after a cursor.
const changeUntil = `cursor=$(journalctl --quiet --lines=1 --output=cat --show-cursor | sed -n 's/^-- cursor: //p')
watch() {
	case $1 in
	file) e2e-agent await /etc/dcm/dcm.toml "$2" ;;
	journal) grep --quiet --max-count=1 --perl-regexp -e "$2" < <(journalctl --quiet --follow --output=json --after-cursor="$cursor" 2>/dev/null) ;;
	removed) udevadm wait --removed "$2" ;;
	probed) udevadm wait --removed "$2" && udevadm wait "$2" ;;
	esac
}
[ "$2" != end ] || exec dcm use "$1"
watch "$2" "$3" &
systemd-run --quiet --collect --unit=change dcm use "$1"
wait %1`

// The registers of the simulated firmware, see kmod/fakehive.h.
const (
	switchMS = 0x48
	probeMS  = 0x4a
	// teardownMS is the time from the end of a process until KFD has released it.
	teardownMS = 0x4c
)

// register sets a 16-bit register of a GPU.
func (m machine) register(gpu string, at, value int) {
	m.t.Helper()
	m.run(fmt.Sprintf(`printf '\%03o\%03o' | dd of=/sys/bus/pci/devices/%s/config bs=1 seek=%d conv=notrunc status=none`,
		value&0xff, value>>8, gpu, at))
}
