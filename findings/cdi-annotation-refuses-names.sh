#!/bin/bash
# Guess:     a valid name of a CDI device, such as a PCI address or the UUID of a MIG instance, can be
#            the id from which a device plugin makes the key of its annotation.
# Behaviour: the key is that of a Kubernetes annotation. A colon, which names of devices may have, is
#            refused. The name of the plugin and the id together have at most 63 characters: the
#            UUID of a MIG instance (40) leaves 22 for the plugin. "/" becomes "_" without a word.
# Versions seen: tags.cncf.io/container-device-interface v1.1.2
# Met by:    device plugins that give CDI devices to containerd or CRI-O by annotation. The plugin
#            works with short ids, and fails for the first GPU with a PCI address as its id.
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

	"tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/pkg/parser"
)

func main() {
	for _, id := range []string{"gpu0", "0000:05:00.0", "MIG-8b6b1f6e-5b7a-4c3d-9e0f-1a2b3c4d5e6f"} {
		key, err := cdi.AnnotationKey("device-plugin.example.com", id)
		fmt.Printf("device name: %v; key %q, %v\n", parser.ValidateDeviceName(id), key, err)
	}
	key, err := cdi.AnnotationKey("device-plugin.example.com", "gpu0/7/0")
	fmt.Printf("key %q, %v\n", key, err)
}
END
expect <<'END' || exit 1
device name: <nil>; key "cdi.k8s.io/device-plugin.example.com_gpu0", <nil>
device name: <nil>; key "", invalid name "device-plugin.example.com_0000:05:00.0", invalid character ':'
device name: <nil>; key "", invalid plugin+deviceID "device-plugin.example.com_MIG-8b6b1f6e-5b7a-4c3d-9e0f-1a2b3c4d5e6f", too long
key "cdi.k8s.io/device-plugin.example.com_gpu0_7_0", <nil>
END
