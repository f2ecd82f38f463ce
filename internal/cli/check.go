package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"dcm/internal/account"
	"dcm/internal/config"
	"dcm/internal/exit"
	"dcm/internal/gpu"
	"dcm/internal/host"
	"dcm/internal/partition"
)

func checkCmd(h *host.Host, con *Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check [FILE] [--node KIND]",
		Short: "Check the configuration, and whether the GPUs can have it",
		Long: `Check the configuration, or the one that would result if FILE took the place of
/etc/dcm/dcm.toml. On a host with GPUs, or with --node, every profile is also
checked against what they can do. FILE may be - for standard input. The exit
status is 78 if the configuration is broken, 1 if there is no FILE or the selected
profile does not fit the GPUs.`,
		Example: "  dcm check\n  dcm check ./dcm.toml --node mi300x-8",
		Args:    args(cobra.MaximumNArgs(1)),
	}
	kind := cmd.Flags().String("node", "", "check against a `KIND` of node, such as mi300x-8, instead of this host")
	cmd.RunE = func(c *cobra.Command, given []string) error { return check(c.Context(), h, con, given, *kind) }
	return cmd
}

func check(ctx context.Context, h *host.Host, con *Console, given []string, kind string) error {
	paths := config.DefaultPaths(h.Root)
	if len(given) > 0 {
		var err error
		if paths, err = judging(paths, given[0]); err != nil {
			return err
		}
	}
	cfg, err := config.Load(paths)
	if err != nil {
		return err
	}
	for _, w := range cfg.Warnings {
		fmt.Fprintln(con.err, con.yellow("dcm: warning: ")+w)
	}
	fmt.Fprintf(con.out, "The configuration is in order: %d profiles, %s.\n", len(cfg.Profiles), selection(cfg))
	if kind == "" {
		checkClients(ctx, h, con, cfg)
		checkUsers(ctx, h, con, cfg)
		checkRestart(ctx, h, con, cfg)
	}
	var misplaced error
	if kind == "" {
		misplaced = checkReserved(h, cfg)
	}
	gpus, others, err := judges(ctx, h, cfg, kind)
	if err != nil {
		return err
	}
	if n := minorsOf(gpus) + others; n > drmMinors {
		fmt.Fprintf(con.err, "%s: this node takes %d DRM devices, whatever the profile, and older kernels have %d in all: a partition may be missing there\n", con.yellow("dcm: warning"), n, drmMinors)
	}
	if len(gpus) == 0 {
		fmt.Fprintln(con.out, "There are no partitionable GPUs here to check it against; see --node.")
		return misplaced
	}
	name := func(text string) string { return text }
	if kind != "" {
		name = byIndex(gpus)
	}
	return errors.Join(misplaced, checkProfiles(con, cfg, gpus, name))
}

// byIndex names GPUs by their index: those of a kind of node have no addresses but
// invented ones.
func byIndex(gpus []partition.GPU) func(string) string {
	var pairs []string
	for i, g := range gpus {
		pairs = append(pairs, string(g.Address), fmt.Sprintf("GPU %d", i))
	}
	return strings.NewReplacer(pairs...).Replace
}

// judging puts a file in the place of the administrator's; "-" is standard input.
func judging(paths config.Paths, file string) (config.Paths, error) {
	if file == "-" {
		return paths.Judging("standard input", os.Stdin)
	}
	f, err := os.Open(file)
	if err != nil {
		return paths, err
	}
	defer f.Close()
	return paths.Judging(file, f)
}

// checkClients names those that are not installed. Without systemd, as in a chroot,
// nobody can tell.
func checkClients(ctx context.Context, h *host.Host, con *Console, cfg *config.Config) {
	if !h.Here() {
		return
	}
	now, err := h.Standing(ctx, h.Clients(cfg), false)
	if err != nil {
		return
	}
	a := account.Account{Clients: now.Clients}
	for _, w := range a.NotInstalled() {
		fmt.Fprintln(con.err, con.yellow("dcm: warning: ")+w)
	}
}

// checkReserved tells of units that would not start with what is reserved for them.
func checkReserved(h *host.Host, cfg *config.Config) error {
	if err := h.Misplaced(cfg.Reservations); err != nil {
		return fmt.Errorf("%w\n%s", err, gpu.Cure(err))
	}
	return nil
}

func selection(cfg *config.Config) string {
	if cfg.Selected == "" {
		return "none is selected"
	}
	return fmt.Sprintf("%s is selected (%s)", cfg.Selected, cfg.Source)
}

// judges returns the GPUs that profiles are checked against, and how many other
// display devices are beside them; none is no error.
func judges(ctx context.Context, h *host.Host, cfg *config.Config, kind string) ([]partition.GPU, int, error) {
	if kind != "" {
		gpus, err := partition.ParseNode(kind)
		if err != nil {
			return nil, 0, exit.With(exit.Usage, err)
		}
		return gpus, 0, nil
	}
	devices, err := h.Node(cfg).Devices(ctx)
	if err != nil && !errors.Is(err, gpu.ErrNoGPU) {
		return nil, 0, err
	}
	gpus := gpu.Partitionable(devices)
	return gpus, len(devices) - len(gpus), nil
}

// drmMinors is how many DRM devices older kernels have in all.
const drmMinors = 64

// minorsOf returns how many DRM devices the GPUs take: the driver registers one
// for each XCC when it is loaded (amdgpu_xcp_drm_dev_alloc), used or not.
func minorsOf(gpus []partition.GPU) int {
	n := 0
	for _, g := range gpus {
		n += max(1, g.XCC)
	}
	return n
}

// checkProfiles prints what each profile means for the GPUs. Only the selected
// one has to fit: a host is not expected to take every profile that is shipped.
func checkProfiles(con *Console, cfg *config.Config, gpus []partition.GPU, name func(string) string) error {
	var failure error
	t := newTable(con.out, "PROFILE", "FITS", "PARTITIONS", "REMARK")
	for _, profile := range cfg.Names() {
		p := cfg.Profiles[profile]
		after, err := outcome(p, gpus)
		mark := profile
		if profile == cfg.Selected {
			mark += " *"
		}
		if err != nil {
			text := name(err.Error())
			if profile == cfg.Selected {
				failure = errors.New(text)
			}
			first, rest, more := strings.Cut(text, "\n")
			if more {
				first += fmt.Sprintf(" (and %d more)", strings.Count(rest, "\n")+1)
			}
			t.row(mark, "no", "-", first)
			continue
		}
		t.row(mark, "yes", fmt.Sprint(partitions(after)), remark(after))
	}
	t.flush()
	return failure
}

// outcome is what the GPUs would be with the profile.
func outcome(p partition.Profile, gpus []partition.GPU) ([]partition.GPU, error) {
	layout, err := p.Layout(gpus)
	if err != nil {
		return nil, err
	}
	steps, err := partition.Plan(layout, gpus)
	if err != nil {
		return nil, err
	}
	return partition.Forecast(gpus, steps), nil
}

func partitions(gpus []partition.GPU) int {
	n := 0
	for _, g := range gpus {
		n += g.Partitions()
	}
	return n
}

// remark tells apart what the driver accepts and what its maker validates.
func remark(after []partition.GPU) string {
	for _, g := range after {
		if text := g.Remark(); text != "" {
			return text
		}
	}
	return ""
}
