package service

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"dcm/internal/app/plan"
	"dcm/internal/engine/config"
	"dcm/internal/engine/config/selection"
	"dcm/internal/engine/daemon"
	"dcm/internal/engine/host"
	"dcm/internal/leases/reservation"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/watch"
)

// effectiveConfig reads the configuration for the daemon, and has the one that is effective. A
// configuration may be large: it is read by one caller at a time.
type effectiveConfig struct {
	host    *host.Host
	log     *slog.Logger
	reading sync.Mutex
	current atomic.Pointer[config.Config]
	changed func() // called when another one is effective; nil: nothing is
}

func newEffectiveConfig(h *host.Host, log *slog.Logger) *effectiveConfig {
	c := &effectiveConfig{host: h, log: log}
	c.current.Store(&config.Config{})
	return c
}

func (c *effectiveConfig) get() *config.Config { return c.current.Load() }

func (c *effectiveConfig) reservations() []config.Reservation { return c.get().Reservations }

func (c *effectiveConfig) observers() []string { return c.get().Observers }

func (c *effectiveConfig) set(cfg *config.Config) {
	c.current.Store(cfg)
	if c.changed != nil {
		c.changed()
	}
}

// load reads the configuration. A usable one is saved as the last good one, for the oneshot and
// the generator, until the next edit.
func (c *effectiveConfig) load() (daemon.Settings, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	cfg, err := c.host.Config()
	if err != nil {
		return daemon.Settings{}, err
	}
	paths := config.DefaultPaths(c.host.Root)
	if cfg.Ended != "" {
		c.log.Info(cfg.Ended)
		if err := selection.EndRuntime(paths); err != nil {
			c.log.Warn(err.Error()) // it does not count all the same
		}
	}
	if err := selection.SaveLastGood(paths, cfg); err != nil {
		c.log.Warn(err.Error())
	}
	c.set(cfg)
	return settings(c.host, cfg), nil
}

// lastGood returns the last good configuration that an earlier daemon of this boot has saved.
func (c *effectiveConfig) lastGood() (daemon.Settings, error) {
	cfg, err := selection.LastGood(config.DefaultPaths(c.host.Root))
	if err != nil {
		return daemon.Settings{}, err
	}
	c.set(cfg)
	return settings(c.host, cfg), nil
}

func settings(h *host.Host, cfg *config.Config) daemon.Settings {
	order := reservation.Order(h, cfg)
	by, expired := confirmation(cfg)
	return daemon.Settings{
		Profile: cfg.Profile, Selected: cfg.Selected != "", Source: cfg.Source, UntilReboot: host.UntilReboot(h, cfg),
		ConfirmBy: by, Expired: expired,
		Require: cfg.Require, Order: order, Warnings: cfg.Warnings,
		Timeout: cfg.DeviceTimeout, Reboot: cfg.Reboot == config.Once, LeaveDrift: cfg.Drift == config.Report,
		Suggest: cfg.Discover == config.Suggest, Include: cfg.Discover == config.Include,
		Budgets: plan.Budgets(cfg), SettleTime: cfg.SettleTime,
		Rest: rest(cfg),
	}
}

// confirmation returns until when the selection has to be confirmed, or why the former one is selected again.
func confirmation(cfg *config.Config) (by time.Time, expired string) {
	if cfg.Unconfirmed != nil {
		by = cfg.Unconfirmed.Deadline
	}
	if cfg.Expired != nil {
		expired = cfg.Expired.Why()
	}
	return by, expired
}

// rest is what affects a run and not the daemon: after an edit of it the daemon tries again what
// has failed.
func rest(cfg *config.Config) string {
	text := fmt.Sprintf("on-failure %s of a %s, reload-driver %t, at-load %t, backend %s %q", cfg.OnFailure, cfg.UnitOfChange, cfg.ReloadDriver, cfg.AtLoad, cfg.Backend, cfg.Library)
	for _, r := range cfg.Reservations {
		text += "; " + r.Name + " " + r.Asks()
	}
	return text
}

// polling is the warning that changes are noticed late.
func polling(why error) string {
	return fmt.Sprintf("%v; until one is, the daemon checks for changes every %s", why, watch.PollInterval)
}

func stale(h *host.Host, s daemon.Settings) ([]string, error) {
	return systemd.Differing(h.Path("run/systemd/generator"), s.Order.Dropins())
}
