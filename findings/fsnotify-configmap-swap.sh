#!/bin/bash
# Guess:     who watches the directory of a mounted ConfigMap sees an event for dcm.toml when its
#            content changes.
# Behaviour: no event has that name. Kubernetes replaces the symbolic link ..data, through which
#            dcm.toml points. A filter on the name of the file never fires, although a read of
#            the file gives the new content.
# Versions seen: github.com/fsnotify/fsnotify v1.10.1
# Met by:    daemons that move from a host to a pod, and watch the directory as the library
#            recommends for files that are replaced.
# Fails:     if the output is not that at the end of this script, which was seen with these versions.
set -euo pipefail
dir=$(mktemp -d)
# shellcheck source=findings/lib.bash
. "$(dirname "$0")/lib.bash"

go_module github.com/fsnotify/fsnotify@v1.10.1
cat >"$dir/main.go" <<'END'
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/fsnotify/fsnotify"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// write makes a directory of a version, and points ..data to it in one step, as the kubelet does.
func write(dir, version string) {
	must(os.Mkdir(filepath.Join(dir, ".."+version), 0o755))
	must(os.WriteFile(filepath.Join(dir, ".."+version, "dcm.toml"), []byte(version), 0o644))
	must(os.Symlink(".."+version, filepath.Join(dir, "..data_tmp")))
	must(os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
}

func main() {
	dir, err := os.MkdirTemp(".", "mount")
	must(err)
	write(dir, "one")
	must(os.Symlink("..data/dcm.toml", filepath.Join(dir, "dcm.toml")))

	w, err := fsnotify.NewWatcher()
	must(err)
	must(w.Add(dir))
	write(dir, "two")
	must(os.RemoveAll(filepath.Join(dir, "..one")))
	must(os.WriteFile(filepath.Join(dir, "end"), nil, 0o644))

	seen := make(map[string]bool)
	for e := range w.Events {
		name := filepath.Base(e.Name)
		if name == "end" {
			break
		}
		seen[name] = true
	}
	var names []string
	for name := range seen {
		names = append(names, name)
	}
	slices.Sort(names)
	text, err := os.ReadFile(filepath.Join(dir, "dcm.toml"))
	must(err)
	fmt.Printf("content of dcm.toml: %s\nevents have the names %q\n", text, names)
}
END
expect <<'END' || exit 1
content of dcm.toml: two
events have the names ["..data" "..data_tmp" "..one" "..two"]
END
