package runstate

import "dcm/internal/linux/statefile"

// DiscoveredFile has the services that the daemon made clients although the configuration does
// not list them. The generator reads it.
const DiscoveredFile = "discovered.json"

// Discovered are services that used a GPU and are clients until the next boot.
type Discovered struct {
	Version int      `json:"version"`
	Units   []string `json:"units"`
}

func discoveredIn(dir string) statefile.File[Discovered] {
	return file(dir, DiscoveredFile, func(d *Discovered) *int { return &d.Version })
}

// ReadDiscovered returns the services in the runtime directory's file, none if there is no file.
func ReadDiscovered(dir string) ([]string, error) {
	d, err := discoveredIn(dir).Valid()
	if d == nil {
		return nil, err
	}
	return d.Units, nil
}

// WriteDiscovered replaces the file. Without services it removes the file.
func WriteDiscovered(dir string, units []string) error {
	if len(units) == 0 {
		return discoveredIn(dir).Remove()
	}
	return discoveredIn(dir).Write(Discovered{Units: units})
}
