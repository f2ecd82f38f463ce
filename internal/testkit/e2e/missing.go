package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// Missing returns why no container can be booted on this host, or nil.
func Missing() error {
	if os.Geteuid() != 0 {
		return errors.New("containers need root")
	}
	for _, tool := range []string{"systemd-nspawn", "mmdebstrap", "mount"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("containers need %s", tool)
		}
	}
	if _, err := os.Stat("/dev/fuse"); err != nil {
		return fmt.Errorf("the simulated node needs FUSE: %w", err)
	}
	_, err := unifiedCgroup()
	return err
}
