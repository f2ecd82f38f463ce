package systemd

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Apply is the unit whose restart is one repartitioning.
const Apply = "dcm-apply.service"

// dropin is the file's name in a unit's .d directory.
const dropin = "50-dcm.conf"

const ordered = `# Written by dcm-generator from the clients that the configuration in /etc/dcm
# names; see ` + "`man dcm.toml`" + `. An edit here is lost at the next daemon-reload.
[Unit]
# Not before the GPUs are partitioned, at boot as well as in a restart; and this
# unit is stopped before that begins.
After=` + Apply + `
# A restart of it restarts this unit in the same transaction, if it is active.
PartOf=` + Apply + `
`

// Wants= would be wrong instead: a client that restarts by itself would run a
// failed dcm-apply.service again under the feet of the other clients.
const required = `# [clients] require = true: not to be started unless the profile was applied.
Requires=` + Apply + `
`

// Dropins returns the generator's files: the path below its directory, and the
// text. A template gets one drop-in that holds for all its instances.
func Dropins(clients []string, require bool) map[string]string {
	text := ordered
	if require {
		text += required
	}
	files := make(map[string]string, len(clients))
	for _, unit := range clients {
		files[unit+".d/"+dropin] = text
	}
	return files
}

// unitForm is systemd's own alphabet for a unit name (VALID_CHARS), so it has no
// path separator, no control character and no glob.
var unitForm = regexp.MustCompile(`^[A-Za-z0-9:_.\\-]+(@[A-Za-z0-9:_.\\@-]*)?\.(service|socket|target|mount|automount|timer|path|swap|slice|scope)$`)

// checkUnit refuses a name that would not make a drop-in of that one unit.
func checkUnit(unit string) error {
	switch {
	case !unitForm.MatchString(unit):
		return fmt.Errorf("%q is not the name of a unit", unit)
	case unit == Apply:
		return fmt.Errorf("%s cannot be a client of itself", unit)
	}
	// systemd.unit(5): "foo-.service.d" holds for every unit foo-*.service.
	stem, _, _ := strings.Cut(unit[:strings.LastIndexByte(unit, '.')], "@")
	if strings.HasSuffix(stem, "-") {
		return fmt.Errorf("%q stands for every unit whose name begins so, not for one", unit)
	}
	return nil
}

// checkUnits splits the names into those that are good, and an error for each
// that is not.
func checkUnits(units []string) (good []string, bad []error) {
	for _, u := range units {
		if err := checkUnit(u); err != nil {
			bad = append(bad, err)
		} else if !slices.Contains(good, u) {
			good = append(good, u)
		}
	}
	return good, bad
}
