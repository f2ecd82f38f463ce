package histories

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/sim"
)

// fault makes operations of the GPUs fail: "compute EIO", or "compute EBUSY 3" for three of them. The operations
// are those of package sim. "wrong" instead of an error is a write without effect. The caller holds mu.
func (g *gpus) fault(text string) error {
	words := append(strings.Fields(text), "1")
	if len(words) < 3 {
		return fmt.Errorf("fault %q: want an operation and an error", text)
	}
	f := sim.Fault{Op: sim.Op(words[0])}
	switch errno, known := map[string]syscall.Errno{"EIO": syscall.EIO, "EBUSY": syscall.EBUSY, "EINVAL": syscall.EINVAL, "ENOMEM": syscall.ENOMEM}[words[1]]; {
	case known:
		f.Errno = sim.Errno(errno)
	case words[1] == "wrong":
		f.Wrong = true
	case words[1] == "hang" && f.Op == sim.OpCompute:
		f.Hang = sim.Duration(20 * time.Second)
	default:
		return fmt.Errorf("fault %q: no such error", text)
	}
	if f.Op == sim.OpLoad {
		g.broken = true
	}
	var err error
	if f.Times, err = strconv.Atoi(words[2]); err != nil {
		return err
	}
	return g.Inject(f)
}

// hotplug removes a GPU from the bus, or adds it again. The caller holds mu.
func (w *world) hotplug(verb, number string) error {
	i, err := strconv.Atoi(number)
	if err != nil || i >= gpuCount {
		return fmt.Errorf("%s %q: no such GPU", verb, number)
	}
	s := w.gpus.State().GPUs[i]
	if (verb == "vanish") == s.Vanished {
		return nil
	}
	if verb == "appear" {
		w.checks.careful = false // the GPU gets the profile
	}
	err = w.gpus.Inject(sim.Fault{Op: sim.OpNow, GPU: s.Address, Vanish: verb == "vanish", Appear: verb == "appear"})
	w.deviceEvent()
	return err
}

// present reports whether GPUs are on the bus and have a driver. The caller holds mu.
func (g *gpus) present(only []partition.Address) bool {
	for _, s := range g.State().GPUs {
		for _, a := range only {
			if a == s.Address && !s.Bound {
				return false
			}
		}
	}
	return true
}

// loseBus ends the bus for a time. Callers of the daemon lose their connection. The connection to PID 1 is its private
// socket, which stays. The caller holds mu.
func (w *world) loseBus(text string) error {
	d, err := time.ParseDuration(text)
	w.busAway = w.now() + d
	close(w.busLost)
	w.busLost = make(chan struct{})
	time.AfterFunc(d+w.jitter("bus", text, w.actions), func() { w.do(func() {}) }) // those that wait look again
	return err
}

// replacePID1 is a daemon-reexec that takes a time, in which PID 1 answers no call. The caller holds mu.
func (w *world) replacePID1(text string) error {
	d, err := time.ParseDuration(text)
	w.pid1Away = w.now() + d
	return err
}

// endHardwareFaults ends all faults of the GPUs. The caller holds mu.
func (w *world) endHardwareFaults() {
	w.gpus.ClearFaults()
	for i := range gpuCount {
		_ = w.hotplug("appear", strconv.Itoa(i))
	}
}
