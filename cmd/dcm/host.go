package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/term"

	"dcm/internal/amdgpu"
	"dcm/internal/config"
)

// host is the machine as a command sees it: where its files are and where to
// write.
type host struct {
	root     string // "/" but for tests and for looking at another tree
	out, err io.Writer
	terminal bool // out is a terminal
	colour   bool
}

func newHost(out, err *os.File) *host {
	terminal := term.IsTerminal(int(out.Fd()))
	return &host{
		root: "/", out: out, err: err,
		terminal: terminal,
		// https://no-color.org
		colour: terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
	}
}

func (h *host) path(elem ...string) string {
	return filepath.Join(append([]string{h.root}, elem...)...)
}

// runtime is the directory of reports, locks and the until-reboot selection.
func (h *host) runtime() string { return h.path("run/dcm") }

func (h *host) lock() string { return h.path("run/dcm/apply.lock") }

func (h *host) config() (*config.Config, error) {
	return config.Load(config.DefaultPaths(h.root))
}

// node is the hardware, set up as the configuration says.
func (h *host) node(cfg *config.Config) *amdgpu.Node {
	if cfg == nil || cfg.Backend == config.Sysfs || h.root != "/" {
		return amdgpu.Open(h.roots())
	}
	return amdgpu.Open(h.roots(), amdgpu.Library(smi(cfg), cfg.Backend == config.AMDSMI))
}

func smi(cfg *config.Config) amdgpu.SMI {
	return amdgpu.SMI{Library: cfg.Library}
}

func (h *host) roots() amdgpu.Roots {
	return amdgpu.Roots{Sys: h.path("sys"), Proc: h.path("proc"), Dev: h.path("dev")}
}

// needRoot refuses what only root can do before anything is half done.
func (h *host) needRoot(what string) error {
	if os.Geteuid() == 0 || h.root != "/" {
		return nil
	}
	return withCode(exitFailed, fmt.Errorf("%s needs root: %w", what, errors.New("run it with sudo")))
}

func (h *host) paint(code, s string) string {
	if !h.colour {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (h *host) red(s string) string    { return h.paint("31", s) }
func (h *host) green(s string) string  { return h.paint("32", s) }
func (h *host) yellow(s string) string { return h.paint("33", s) }
func (h *host) bold(s string) string   { return h.paint("1", s) }
