package configure

import (
	"dcm/internal/app/cli/console"
	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
)

// effectiveVersion is the version of the JSON of dcm check --effective.
const effectiveVersion = 1

// listEffective prints each value of the configuration with its file and line.
func listEffective(h *host.Host, con *console.Console, given []string, asJSON bool) error {
	paths, err := pathsFor(h, given)
	if err != nil {
		return err
	}
	all, err := config.Effective(paths)
	if err != nil {
		return err
	}
	if asJSON {
		return con.Answer(struct {
			Version  int              `json:"version"`
			Settings []config.Setting `json:"settings"`
		}{effectiveVersion, append([]config.Setting{}, all...)})
	}
	if len(all) == 0 {
		con.Println("No file has a setting: all have their defaults, see dcm.toml(5).")
		return nil
	}
	t := con.NewTable("SETTING", "VALUE", "SET IN")
	for _, s := range all {
		t.Row(s.Key, s.TOML(), s.Place())
	}
	t.Flush()
	return nil
}
