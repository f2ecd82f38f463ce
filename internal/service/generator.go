package service

import (
	"fmt"
	"log/slog"
	"os"
	"time"

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
	return within(generating, log, func() int { return generate(root, dirs[0], log) })
}

// generating is what the generator may take. A boot and every daemon-reload wait for
// it, up to the minute and a half after which systemd kills it; it takes 10 ms.
const generating = 20 * time.Second

// within does the work, or ends without: the program is over then, whatever the work
// is held up by.
func within(limit time.Duration, log func(slog.Level, string), work func() int) int {
	done := make(chan int, 1)
	go func() { done <- work() }()
	select {
	case code := <-done:
		return code
	case <-time.After(limit):
		log(slog.LevelError, fmt.Sprintf("the configuration was not read within %s, so client units are not ordered after dcm-apply.service", limit))
		return exit.Failed
	}
}

func generate(root, dir string, log func(slog.Level, string)) int {
	cfg, broken, err := config.InForce(config.DefaultPaths(root))
	if broken != nil {
		log(slog.LevelError, "the configuration cannot be used, and client units are ordered as the last good one says:\n"+broken.Error())
	}
	if err != nil {
		log(slog.LevelError, "the configuration cannot be used, so client units are not ordered after dcm-apply.service:\n"+err.Error())
	}
	if err := systemd.Generate(dir, order(&host.Host{Root: root}, cfg, log)); err != nil {
		log(slog.LevelError, "cannot write every drop-in of the client units: "+err.Error())
		return exit.Failed
	}
	return exit.OK
}

// order is what is to be written. Reservations are read on their own where the rest
// cannot be: no reserved unit starts with everything for somebody else's mistake.
func order(h *host.Host, cfg *config.Config, log func(slog.Level, string)) systemd.Order {
	if cfg != nil {
		return h.Order(cfg)
	}
	all, lost := h.Reservations()
	for _, unit := range lost {
		log(slog.LevelError, unconfined(unit))
	}
	return h.Reserve(systemd.Order{Needs: h.Needs()}, all)
}
