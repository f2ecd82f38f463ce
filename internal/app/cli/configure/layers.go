package configure

import (
	"os"

	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
)

// load returns the configuration, with the file in the place of the administrator's.
func load(h *host.Host, given []string) (*config.Config, error) {
	paths, err := pathsFor(h, given)
	if err != nil {
		return nil, err
	}
	return config.Load(paths)
}

// pathsFor returns the paths of the layers, with the file in the place of the administrator's.
func pathsFor(h *host.Host, given []string) (config.Paths, error) {
	paths := config.DefaultPaths(h.Root)
	if len(given) == 0 {
		return paths, nil
	}
	return judging(paths, given[0])
}

// judging replaces the administrator's file with another; "-" is standard input.
func judging(paths config.Paths, file string) (config.Paths, error) {
	if file == "-" {
		return paths.WithAdminText("standard input", os.Stdin)
	}
	f, err := os.Open(file)
	if err != nil {
		return paths, err
	}
	defer f.Close()
	return paths.WithAdminText(file, f)
}
