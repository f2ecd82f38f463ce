package e2e

import (
	_ "embed"
	"fmt"
	"maps"
	"os"
	"path/filepath"
)

// File is a file or, with Link set, a symbolic link.
type File struct {
	Content []byte
	Mode    os.FileMode // 0644 if 0
	Link    string
}

//go:embed agent.service
var agentUnit []byte

// Seed contains files, by absolute path, that are in a container before it boots.
type Seed map[string]File

// Write writes the files below a new directory.
func (s Seed) Write(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for path, f := range s {
		if err := f.write(filepath.Join(dir, path)); err != nil {
			return fmt.Errorf("cannot write %s: %w", path, err)
		}
	}
	return nil
}

func (f File) write(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if f.Link != "" {
		return os.Symlink(f.Link, path)
	}
	mode := f.Mode
	if mode == 0 {
		mode = 0o644
	}
	if err := os.WriteFile(path, f.Content, mode); err != nil {
		return err
	}
	return os.Chmod(path, mode) // the umask must not apply
}

// withAgent adds the files of the harness.
func (s Seed) withAgent(program string) (Seed, error) {
	content, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	all := Seed{
		// Without a machine id systemd enables all units, as in a first boot.
		"/etc/machine-id":                                            {Content: []byte("5e1f7e57000000000000000000000000\n")},
		"/usr/local/bin/e2e-agent":                                   {Content: content, Mode: 0o755},
		"/etc/systemd/system/e2e-agent.service":                      {Content: agentUnit},
		"/etc/systemd/system/sysinit.target.wants/e2e-agent.service": {Link: "../e2e-agent.service"},
	}
	maps.Copy(all, s)
	return all, nil
}
