package vm

import (
	"context"
	"errors"
)

// Reboot runs systemctl reboot in the guest and waits until the next boot has completed.
func (m *Machine) Reboot(ctx context.Context) error {
	// The guest's agent may be killed before the command returns.
	return m.restart(ctx, "systemctl", "reboot")
}

// SoftReboot restarts the guest's user space only.
func (m *Machine) SoftReboot(ctx context.Context) error {
	return m.restart(ctx, "systemctl", "soft-reboot")
}

// Kexec starts the kernel that is loaded for it. The machine itself is not reset.
func (m *Machine) Kexec(ctx context.Context) error {
	return m.restart(ctx, "systemctl", "kexec")
}

func (m *Machine) restart(ctx context.Context, argv ...string) error {
	cut, cancel := context.WithCancel(ctx)
	defer cancel()
	go m.Run(cut, argv...) // ends with the agent, or with the wait below
	return m.booted(ctx)
}

// PowerCut ends the guest without a shutdown. [Machine.PowerOn] boots it again.
func (m *Machine) PowerCut(context.Context) error { return m.running.stop() }

// bootAttempts is how often a boot is tried: a guest's kernel may panic when it changes
// its own code under multi-threaded emulation, in one of fifteen boots on some hosts.
const bootAttempts = 3

// PowerOn boots the guest from its disk and waits until it is up.
func (m *Machine) PowerOn(ctx context.Context) error {
	var errs []error
	for range bootAttempts {
		err := m.start(false)
		if err == nil {
			err = m.booted(ctx)
		}
		if err == nil {
			// From now on a reboot resets the machine. During the boot, a reboot ended QEMU.
			_, err = m.running.monitor.execute("set-action", map[string]string{"reboot": "reset"})
			return err
		}
		errs = append(errs, err)
		if m.running != nil {
			errs = append(errs, m.running.stop())
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}
