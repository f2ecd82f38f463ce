#!/bin/bash
# Guess:     a CDI Spec in /etc/cdi/gpu.yml is loaded like one in /etc/cdi/gpu.yaml.
# Behaviour: the library reads only names that end in .json or .yaml. It ignores the file, and
#            reports no error: the device is unknown.
# Versions seen: tags.cncf.io/container-device-interface v1.1.1
# Met by:    administrators who write a Spec by hand or by a tool whose habit is .yml, for podman,
#            containerd or CRI-O, which use this library. The engine says "unresolvable CDI devices".
# Fails:     if the output is not that at the end of this script, which was seen with these versions.
set -euo pipefail
dir=$(mktemp -d)
# shellcheck source=findings/lib.bash
. "$(dirname "$0")/lib.bash"

go_module tags.cncf.io/container-device-interface@v1.1.1
cat >"$dir/main.go" <<'END'
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"tags.cncf.io/container-device-interface/pkg/cdi"
)

const spec = "cdiVersion: 0.6.0\nkind: example.com/gpu\ndevices:\n- name: zero\n  containerEdits:\n    deviceNodes:\n    - path: /dev/null\n"

func main() {
	for _, name := range []string{"gpu.yaml", "gpu.yml"} {
		dir, err := os.MkdirTemp(".", "specs")
		if err != nil {
			panic(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(spec), 0o644); err != nil {
			panic(err)
		}
		cache, err := cdi.NewCache(cdi.WithSpecDirs(dir), cdi.WithAutoRefresh(false))
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s: devices %q, refresh: %v, errors %d\n", name, cache.ListDevices(), cache.Refresh(), len(cache.GetErrors()))
	}
}
END
expect <<'END' || exit 1
gpu.yaml: devices ["example.com/gpu=zero"], refresh: <nil>, errors 0
gpu.yml: devices [], refresh: <nil>, errors 0
END
