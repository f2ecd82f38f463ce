package service

import (
	"fmt"
	"log/slog"
	"os"

	"dcm/internal/config"
	"dcm/internal/exit"
	"dcm/internal/host"
	"dcm/internal/systemd"
)

// Generator is dcm-generator: the drop-ins for the client units, from the
// configuration, into the directory that systemd gives as first argument. Where that
// is broken, the last good one of this boot is in force. Without one, as at boot, the
// clients stay unordered, and the host comes up: it is told to the kernel's log, and
// the exit status stays 0.
func Generator(root string, dirs []string) int {
	if len(dirs) != 1 && len(dirs) != 3 {
		fmt.Fprintln(os.Stderr, "usage: dcm-generator NORMAL-DIR [EARLY-DIR LATE-DIR]; systemd runs it, see systemd.generator(7)")
		return exit.Usage
	}
	log := systemd.KernelLog("/dev/kmsg", "dcm-generator", os.Stderr)
	cfg, broken, err := config.InForce(config.DefaultPaths(root))
	if broken != nil {
		log(slog.LevelError, "the configuration cannot be used, and client units are ordered as the last good one says:\n"+broken.Error())
	}
	if err != nil {
		log(slog.LevelError, "the configuration cannot be used, so client units are not ordered after dcm-apply.service:\n"+err.Error())
		return exit.OK
	}
	h := &host.Host{Root: root}
	if err := systemd.Generate(dirs[0], h.Clients(cfg), cfg.Require); err != nil {
		log(slog.LevelError, "cannot write every drop-in of the client units: "+err.Error())
		return exit.Failed
	}
	return exit.OK
}
