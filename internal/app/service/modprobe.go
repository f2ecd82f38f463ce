package service

import (
	"log/slog"

	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/gpu/modprobe"
	"dcm/internal/gpu/partition"
)

// atLoad is the compute mode that the driver shall come up in, "" for its own
// choice.
func atLoad(cfg *config.Config) partition.Compute {
	mode, ok := modprobe.Mode(cfg.Profile)
	if !cfg.AtLoad || cfg.Selected == "" || !ok {
		return ""
	}
	return mode
}

func atLoadFile(h *host.Host) string { return h.Path("etc/modprobe.d/dcm.conf") }

// removeModprobeConf keeps the driver from starting in a mode of an earlier profile. An error costs
// time at boot at most, and so is only logged.
func removeModprobeConf(h *host.Host, cfg *config.Config, log *slog.Logger) {
	changed, err := modprobe.Drop(atLoadFile(h), atLoad(cfg))
	if err != nil {
		log.Warn(err.Error())
	} else if changed {
		log.Info("the driver chooses again what to come up in", "file", atLoadFile(h))
	}
}

// writeModprobeConf has the driver come up in the mode that the GPUs have now.
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
		log.Info("the driver comes up in "+string(mode)+" from now on; an initramfs that has it needs to be made anew", "file", atLoadFile(h))
	}
}
