package report

import "path/filepath"

// GuardFile is in the runtime directory, written by dcm-guard.
const GuardFile = "guard.json"

// Guard is what became of what is reserved exclusively.
type Guard struct {
	Version int    `json:"version"`
	Loaded  bool   `json:"loaded"`
	Devices int    `json:"devices"` // that open for their holders alone
	Why     string `json:"why"`     // it cannot be done here; "" if it can
	// Uncapped is why somebody who shares may take more of the memory than his share; ""
	// if nobody may.
	Uncapped string `json:"uncapped"`
}

// WriteGuard replaces the file.
func WriteGuard(dir string, g Guard) error {
	g.Version = Version
	return Write(filepath.Join(dir, GuardFile), g)
}

// ReadGuard returns what dcm-guard said last, nil if it has not run since the boot.
func ReadGuard(dir string) (*Guard, error) {
	return read(filepath.Join(dir, GuardFile), func(g *Guard) int { return g.Version })
}
