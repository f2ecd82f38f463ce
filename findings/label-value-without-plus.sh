#!/bin/bash
# Guess:     the name of a MIG profile can be a label's value and part of a resource's name in Kubernetes, as
#            1g.10gb is.
# Behaviour: 1g.10gb+me, the profile with the media engines, is neither: a plus is no character of a label. The
#            names of GPUs as PCI addresses fail in the same way, those as UUIDs do not.
# Versions seen: k8s.io/apimachinery v0.37.2
# Met by:    operators that select a layout of a node by a label whose value is the layout's name. The layout
#            can be written in the configuration, and no node can select it.
# Fails:     if the output is not that at the end of this script, which was seen with this version.
set -euo pipefail
dir=$(mktemp -d)
# shellcheck source=findings/lib.bash
. "$(dirname "$0")/lib.bash"

go_module k8s.io/apimachinery/pkg/util/validation@v0.37.2
cat >"$dir/main.go" <<'END'
package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"
)

func main() {
	for _, name := range []string{
		"all-1g.10gb", "all-1g.10gb+me", "1g.10gb.me", "0000:05:00.0", "MIG-8b6b1f6e-5b7a-4c3d-9e0f-1a2b3c4d5e6f",
	} {
		value := len(validation.IsValidLabelValue(name)) == 0
		resource := len(validation.IsQualifiedName("example.com/"+name)) == 0
		fmt.Println(name, "label:", value, "resource:", resource)
	}
}
END
expect <<'END' || exit 1
all-1g.10gb label: true resource: true
all-1g.10gb+me label: false resource: false
1g.10gb.me label: true resource: true
0000:05:00.0 label: false resource: false
MIG-8b6b1f6e-5b7a-4c3d-9e0f-1a2b3c4d5e6f label: true resource: true
END
