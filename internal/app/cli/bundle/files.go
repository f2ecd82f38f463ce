package bundle

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/frontends/supportbundle"
	"dcm/internal/sanitize"
)

// configuration returns the files of all layers, unchanged.
func configuration(h *host.Host) []supportbundle.Part {
	p := config.DefaultPaths("/")
	var parts []supportbundle.Part
	for _, pattern := range []string{
		filepath.Join(p.Shipped, "*.toml"), p.Kubernetes, p.Admin, p.Agent, filepath.Join(p.Local, "*.toml"), filepath.Join(p.Runtime, "*.toml"),
		"/run/systemd/generator/*.d/50-dcm.conf",
	} {
		found, _ := filepath.Glob(h.Path(pattern)) // the patterns are without mistake
		for _, file := range found {
			parts = append(parts, ownFile(h, strings.TrimPrefix(file, h.Path())))
		}
	}
	return parts
}

// ownFile is one of dcm's own files. A symbolic link that leads out of dcm's directories is
// not followed.
func ownFile(h *host.Host, path string) supportbundle.Part {
	path = strings.TrimPrefix(path, "/")
	return supportbundle.Part{Name: "files/" + sanitize.Text(path), Description: "/" + sanitize.Text(path), Read: func(context.Context) ([]byte, error) {
		full := h.Path(path)
		real, err := filepath.EvalSymlinks(full)
		if err != nil {
			return nil, sanitize.Error(err)
		}
		for _, dir := range []string{"etc/dcm", "usr/lib/dcm", "run/dcm", "run/systemd/generator"} {
			own, err := filepath.EvalSymlinks(h.Path(dir))
			if err == nil && strings.HasPrefix(real, own+"/") {
				return readRegular(real)
			}
		}
		return nil, errors.New("a link to " + sanitize.Text(real) + ", which is not dcm's")
	}}
}

func readRegular(path string) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	return os.ReadFile(path)
}
