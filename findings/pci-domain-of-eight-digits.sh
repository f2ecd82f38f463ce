#!/bin/bash
# Guess:     a parser of PCI addresses reads 00000000:05:00.0, the form of nvidia-smi, as the same device as
#            0000:05:00.0, the form of sysfs.
# Behaviour: it returns nil, without an error, for a domain of eight digits. A domain of five digits is read,
#            upper-case digits are changed to lower case, and a missing domain is 0000.
# Versions seen: github.com/jaypipes/ghw v0.27.0
# Met by:    agents that look up the NUMA node of a GPU by the address that NVIDIA's tools print. They
#            find no GPU, or use the nil if they do not look for it.
# Fails:     if the output is not that at the end of this script, which was seen with these versions.
set -euo pipefail
dir=$(mktemp -d)
# shellcheck source=findings/lib.bash
. "$(dirname "$0")/lib.bash"

go_module github.com/jaypipes/ghw@v0.27.0
cat >"$dir/main.go" <<'END'
package main

import (
	"fmt"

	"github.com/jaypipes/ghw/pkg/pci/address"
)

func main() {
	for _, text := range []string{"0000:C5:00.0", "05:00.0", "10000:05:00.0", "00000000:05:00.0"} {
		fmt.Printf("%s: %v\n", text, address.FromString(text))
	}
}
END
expect <<'END' || exit 1
0000:C5:00.0: 0000:c5:00.0
05:00.0: 0000:05:00.0
10000:05:00.0: 10000:05:00.0
00000000:05:00.0: <nil>
END
