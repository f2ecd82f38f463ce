#!/bin/bash
# Guess:     the removal of a watched file is an event REMOVE.
# Behaviour: while any process has the file open, it is an event CHMOD. REMOVE follows when the last process closes
#            the file. A watch on the directory gets REMOVE immediately.
# Versions seen: github.com/fsnotify/fsnotify v1.10.1
# Met by:    agents that wait until a lock file or a file with a process id is removed. If the owner
#            removes it first and ends later, the agent waits until that end.
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

	"github.com/fsnotify/fsnotify"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func watch(path string) *fsnotify.Watcher {
	w, err := fsnotify.NewWatcher()
	must(err)
	must(w.Add(path))
	return w
}

func main() {
	dir, err := os.MkdirTemp(".", "run")
	must(err)
	path := filepath.Join(dir, "lock")
	file, err := os.Create(path)
	must(err)
	onFile, onDir := watch(path), watch(dir)

	must(os.Remove(path))
	fmt.Println("directory, file removed:", (<-onDir.Events).Op)
	fmt.Println("file, removed:", (<-onFile.Events).Op)
	must(file.Close())
	fmt.Println("file, closed:", (<-onFile.Events).Op)
}
END
expect <<'END' || exit 1
directory, file removed: REMOVE
file, removed: CHMOD
file, closed: REMOVE
END
