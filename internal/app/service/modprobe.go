package service

import (
	"log/slog"

	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/gpu/modprobe"
	"dcm/internal/gpu/partition"
)

// atLoad returns the compute mode in which the driver is loaded, "" for the driver's default.
func atLoad(cfg *config.Config) partition.Compute {
	mode, ok := modprobe.Mode(cfg.Profile)
	if !cfg.AtLoad || cfg.Selected == "" || !ok {
		return ""
	}
	return mode
}

func atLoadFile(h *host.Host) string { return h.Path("etc/modprobe.d/dcm.conf") }

// removeModprobeConf prevents that the driver starts in the mode of an earlier profile. An error is
// only logged: at worst the boot takes longer.
func removeModprobeConf(h *host.Host, cfg *config.Config, log *slog.Logger) {
	changed, err := modprobe.Drop(atLoadFile(h), atLoad(cfg))
	if err != nil {
		log.Warn(err.Error())
	} else if changed {
		log.Info("the driver starts in its default mode again", "file", atLoadFile(h))
	}
}

// writeModprobeConf makes the driver start in the mode that the GPUs have now.
func writeModprobeConf(h *host.Host, cfg *config.Config, log *slog.Logger) {
	mode := atLoad(cfg)
	if mode == "" {
		if cfg.AtLoad {
			log.Info("at-load has no effect: the profile does not give one compute mode to every GPU")
		}
		return
	}
	changed, err := modprobe.Set(atLoadFile(h), mode)
	if err != nil {
		log.Warn(err.Error())
	} else if changed {
		log.Info("the driver starts in "+string(mode)+" from now on; update the initramfs if it contains the driver", "file", atLoadFile(h))
	}
}
