#!/bin/bash
# Guess:     a Quantity for a share of a GPU's memory, such as 0.1Gi, is printed in bytes or in a
#            binary unit, such as 102.4Mi, since memory has no smaller unit than a byte.
# Behaviour: it is printed in thousandths of a byte, as 107374182400m. Value rounds up to bytes,
#            so text and number differ.
# Versions seen: k8s.io/apimachinery v0.34.1
# Met by:    authors of DRA drivers that compute the capacity of a partition, and scripts that
#            read a ResourceSlice and cut off the unit.
# Fails:     if the output is not that at the end of this script, which was seen with these versions.
set -euo pipefail
dir=$(mktemp -d)
# shellcheck source=findings/lib.bash
. "$(dirname "$0")/lib.bash"

go_module k8s.io/apimachinery@v0.34.1
cat >"$dir/main.go" <<'END'
package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
)

func main() {
	for _, text := range []string{"1.5Gi", "0.1Gi"} {
		q := resource.MustParse(text)
		fmt.Printf("%s: printed %s, value %d\n", text, q.String(), q.Value())
	}
}
END
expect <<'END' || exit 1
1.5Gi: printed 1536Mi, value 1610612736
0.1Gi: printed 107374182400m, value 107374183
END
