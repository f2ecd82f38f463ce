#!/bin/bash
# Guess:     a backup copy of a CDI Spec next to it is harmless: both files say the same of each
#            device, so one of them counts.
# Behaviour: the library compares no content. Two Specs of one directory with the same device are a
#            conflict, and none of their devices can be resolved. A device is overridden only by a
#            Spec of a directory with a higher priority.
# Versions seen: tags.cncf.io/container-device-interface v1.1.2
# Met by:    administrators who copy gpu.yaml to gpu.backup.yaml before an edit. Until the copy is
#            removed, no container that names one of the GPUs starts.
# Fails:     if the output is not that at the end of this script, which was seen with these versions.
set -euo pipefail
dir=$(mktemp -d)
# shellcheck source=findings/lib.bash
. "$(dirname "$0")/lib.bash"

go_module tags.cncf.io/container-device-interface@v1.1.2
cat >"$dir/main.go" <<'END'
package main

import (
	"fmt"
	"os"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"
)

const spec = "cdiVersion: 0.6.0\nkind: example.com/gpu\ndevices:\n- name: zero\n  containerEdits:\n    deviceNodes:\n    - path: /dev/null\n"

func main() {
	if err := os.Mkdir("specs", 0o755); err != nil {
		panic(err)
	}
	for _, name := range []string{"specs/gpu.yaml", "specs/gpu.backup.yaml"} {
		if err := os.WriteFile(name, []byte(spec), 0o644); err != nil {
			panic(err)
		}
		cache, err := cdi.NewCache(cdi.WithSpecDirs("specs"), cdi.WithAutoRefresh(false))
		if err != nil {
			panic(err)
		}
		_, err = cache.InjectDevices(&oci.Spec{}, "example.com/gpu=zero")
		fmt.Printf("with %s: devices %q, injected: %v\n", name, cache.ListDevices(), err)
	}
}
END
expect <<'END' || exit 1
with specs/gpu.yaml: devices ["example.com/gpu=zero"], injected: <nil>
with specs/gpu.backup.yaml: devices [], injected: unresolvable CDI devices example.com/gpu=zero
END
