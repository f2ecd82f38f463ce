package leases

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
	"dcm/internal/linux/unitname"
	"dcm/internal/sanitize"
	"dcm/internal/text"
)

// findLease returns the unit of a lease from its name, or from the beginning of its name or of its ID. A name that
// can be only that of a lease is returned whether or not there is such a lease.
func findLease(h *host.Host, given string) (string, error) {
	if _, ok := unitname.ParseLease(given); ok {
		return given, nil
	}
	var found []string
	for _, name := range host.Leases(h) {
		if unit := name.String(); given != "" && (strings.HasPrefix(name.ID, given) || strings.HasPrefix(unit, given)) {
			found = append(found, unit)
		}
	}
	shown := sanitize.Text(cmp.Or(given, `""`))
	switch len(found) {
	case 0:
		return "", fmt.Errorf("there is no lease %s\nhint: dcm lease list lists them", shown)
	case 1:
		return found[0], nil
	}
	slices.Sort(found)
	return "", exitcode.With(exitcode.Usage, fmt.Errorf("%s is the beginning of %d leases: %s", shown, len(found), text.Few(found)))
}

// completeLeases returns the leases for a completion, each with its owner and a process.
func completeLeases(h *host.Host) []cobra.Completion {
	var out []cobra.Completion
	for _, l := range host.LeaseHolders(h) {
		out = append(out, cobra.CompletionWithDesc(l.Unit, fmt.Sprintf("%s of %s", l.Command, l.LeaseOwner)))
	}
	return out
}
