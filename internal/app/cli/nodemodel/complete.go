package nodemodel

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/gpu/partition"
)

// completionTimeout limits how long a shell waits for the GPUs of the host.
const completionTimeout = 2 * time.Second

// ProfileNames completes an argument that is the name of a profile.
func ProfileNames(h *host.Host) cobra.CompletionFunc {
	return func(c *cobra.Command, given []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(given) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return Profiles(c, h), cobra.ShellCompDirectiveNoFileComp
	}
}

// Profiles returns the profiles that fit the GPUs of the host, or of the command's --node, each with what it
// makes of them. If the GPUs cannot be read, it returns all profiles with their modes. It is
// empty if the configuration has an error.
func Profiles(c *cobra.Command, h *host.Host) []cobra.Completion {
	cfg, err := h.Config()
	if err != nil {
		return nil
	}
	gpus := completionGPUs(c, h, cfg)
	var out []cobra.Completion
	for _, name := range cfg.Available(gpus) {
		p, _ := cfg.Lookup(name)
		about, fits := describe(p, gpus)
		if !fits {
			continue
		}
		if name == cfg.Selected {
			about += ", selected"
		}
		out = append(out, cobra.CompletionWithDesc(name, about))
	}
	return out
}

// completionGPUs returns the GPUs of the host, or of the command's --node; nil if they cannot be read in time.
func completionGPUs(c *cobra.Command, h *host.Host, cfg *config.Config) []partition.GPU {
	kind := ""
	if f := c.Flags().Lookup("node"); f != nil {
		kind = f.Value.String()
	}
	ctx, cancel := context.WithTimeout(c.Context(), completionTimeout)
	defer cancel()
	gpus, err := GPUs(ctx, h, cfg, kind)
	if err != nil {
		return nil
	}
	return gpus
}

// describe returns the modes of a profile, and the number of partitions and the reload it causes on these
// GPUs, if any are known. fits is false if the profile does not fit them.
func describe(p partition.Profile, gpus []partition.GPU) (about string, fits bool) {
	about = p.String()
	if p.Memory != "" {
		about += ", " + string(p.Memory)
	}
	if len(gpus) == 0 {
		return about, true
	}
	after, steps, err := Outcome(p, gpus)
	if err != nil {
		return "", false
	}
	n := 0
	for _, g := range after {
		n += g.Partitions()
	}
	about += fmt.Sprintf(", %d partitions", n)
	if steps.Reloads() {
		about += ", reloads the driver"
	}
	return about, true
}

// MakeProfiles completes what a lease can make on the GPUs of the host: their MIG profiles and compute
// modes. It is empty if no profile of the configuration has dynamic GPUs.
func MakeProfiles(c *cobra.Command, h *host.Host) []cobra.Completion {
	cfg, err := h.Config()
	if err != nil || len(cfg.Dynamic) == 0 {
		return nil
	}
	var out []cobra.Completion
	seen := make(map[string]bool)
	add := func(name, about string) {
		if !seen[name] {
			seen[name] = true
			out = append(out, cobra.CompletionWithDesc(name, about))
		}
	}
	for _, g := range completionGPUs(c, h, cfg) {
		for _, p := range g.OfferedProfiles() {
			add(p.Name, "MIG instance")
		}
		for _, m := range g.AvailableCompute {
			add(string(m), "compute mode")
		}
	}
	return out
}
