#!/bin/bash
# Guess:     a container that gets two CDI devices has the environment of both: a list in a variable
#            such as ROCR_VISIBLE_DEVICES names two GPUs.
# Behaviour: each device replaces the value of the variable. The container has the nodes of both
#            devices, and the value of the last one. Its runtime sees one GPU.
# Versions seen: tags.cncf.io/container-device-interface v1.1.2
# Met by:    authors of Specs who give each GPU or partition a variable of its own. A Spec can only
#            set a list of GPUs that is the same for every device, in the edits of the whole Spec.
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

const spec = `cdiVersion: 0.6.0
kind: example.com/gpu
devices:
- name: zero
  containerEdits:
    env: [VISIBLE=0]
    deviceNodes: [{path: /dev/null}]
- name: one
  containerEdits:
    env: [VISIBLE=1]
    deviceNodes: [{path: /dev/zero}]
`

func main() {
	if err := os.Mkdir("specs", 0o755); err != nil {
		panic(err)
	}
	if err := os.WriteFile("specs/gpu.yaml", []byte(spec), 0o644); err != nil {
		panic(err)
	}
	cache, err := cdi.NewCache(cdi.WithSpecDirs("specs"), cdi.WithAutoRefresh(false))
	if err != nil {
		panic(err)
	}
	for _, order := range [][]string{{"example.com/gpu=zero", "example.com/gpu=one"}, {"example.com/gpu=one", "example.com/gpu=zero"}} {
		c := &oci.Spec{}
		_, err := cache.InjectDevices(c, order...)
		fmt.Printf("%d nodes, environment %q, %v\n", len(c.Linux.Devices), c.Process.Env, err)
	}
}
END
expect <<'END' || exit 1
2 nodes, environment ["VISIBLE=1"], <nil>
2 nodes, environment ["VISIBLE=0"], <nil>
END
