package leases

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/console"
	"dcm/internal/frontends/dbusapi"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/placement"
	"dcm/internal/linux/unitname"
)

// addRequest adds the options of a request for partitions.
func addRequest(cmd *cobra.Command, w *dbusapi.Request) {
	f := cmd.Flags()
	f.IntVarP(&w.Partitions, "partitions", "n", 0, "request `N` partitions (default 1)")
	f.IntVar(&w.GPUs, "gpus", 0, "request `N` whole GPUs")
	addNamed(f, w)
	f.StringVar(&w.Place, "place", "", "placement of the partitions relative to each other (`PLACE`): pack, spread or link")
	f.StringVar(&w.Vendor, "vendor", "", "choose partitions of this `VENDOR`: amd or nvidia")
	f.StringVar(&w.Mode, "mode", "", "choose partitions of this `MODE`, such as CPX, or MIG profile, such as 3g.40gb")
	f.StringVar(&w.Make, "make", "", "create a MIG instance of this `PROFILE`, such as 3g.40gb, or set a compute mode, such as CPX, for the lease")
	f.BoolVar(&w.Exclusive, "exclusive", false, "deny the partitions to all other processes")
	f.IntVar(&w.Share, "share", 0, "share the partitions with up to `N` leases in total")
	addWait(f, w)
	console.DurationFlag(cmd, &w.Time, "time", "", "end the lease after that `TIME`, such as 2h")
}

// checkRequest returns the error of the options of [addRequest].
func checkRequest(w dbusapi.Request, set func(option string) bool) error {
	if err := checkNumbers(w, set); err != nil {
		return err
	}
	switch {
	case w.Partitions > 0 && w.GPUs > 0:
		return errors.New("--partitions and --gpus cannot be combined")
	case w.Named() && (w.Partitions > 0 || w.GPUs > 0):
		return errors.New("--gpu and --partition cannot be combined with -n or --gpus")
	case w.Exclusive && w.Share > 0:
		return errors.New("--exclusive and --share cannot be combined")
	}
	for option, text := range map[string]string{"make": w.Make, "place": w.Place, "vendor": w.Vendor, "mode": w.Mode} {
		if text == "" && set(option) {
			return fmt.Errorf("--%s: empty; omit the option, or give a value", option)
		}
	}
	if err := errors.Join(checkNamed(w, set), checkMake(w)); err != nil {
		return err
	}
	if _, err := placement.ParsePlace(w.Place); err != nil {
		return fmt.Errorf("--place: %w", err)
	}
	_, err := partition.ParseCriteria(w.Vendor, w.Mode)
	return err
}

// checkMake checks the request for an instance that does not exist yet.
func checkMake(w dbusapi.Request) error {
	if w.Make == "" {
		return nil
	}
	if w.Partitions > 0 && partition.IsMode(w.Make) {
		w.Partitions = 0 // the number of partitions in that mode
	}
	if w.Partitions > 0 || w.GPUs > 0 || w.Named() || w.Place != "" || w.Vendor != "" || w.Mode != "" || w.Exclusive || w.Share > 0 {
		return errors.New("--make can be combined only with --wait, --time, --dry-run, --json and, for a compute mode, -n")
	}
	if err := partition.CheckMade(w.Make); err != nil {
		return fmt.Errorf("--make: %w", err)
	}
	return nil
}

func checkNumbers(w dbusapi.Request, set func(option string) bool) error {
	switch {
	case w.Partitions < 1 && set("partitions"):
		return fmt.Errorf("-n, --partitions: too small (found %d, want 1 or more)", w.Partitions)
	case w.GPUs < 1 && set("gpus"):
		return fmt.Errorf("--gpus: too small (found %d, want 1 or more)", w.GPUs)
	case w.Time <= 0 && set("time"):
		return fmt.Errorf("--time: too short (found %s, want a time such as 30m or 2h; without --time the lease has no limit)", w.Time)
	case (w.Share < 2 || w.Share > unitname.MaxShares) && set("share"):
		return fmt.Errorf("--share: impossible number (found %d, want 2 to %d)", w.Share, unitname.MaxShares)
	}
	return nil
}
