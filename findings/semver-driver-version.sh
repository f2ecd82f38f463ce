#!/bin/bash
# Guess:     the version of a GPU driver with three numbers, such as 580.95.05, is a semantic version.
# Behaviour: a number of a semantic version has no leading zero. So 580.95.05 is refused, and 570.133.20 is
#            accepted. A version of four parts, as AMD's driver has, is refused too.
# Versions seen: github.com/blang/semver/v4 v4.0.0
# Met by:    authors of drivers for Kubernetes' dynamic resource allocation, whose attributes of the type version
#            must be semantic versions. The devices are published with one release of the driver, and refused
#            with the next one.
# Fails:     if the output is not that at the end of this script, which was seen with these versions.
set -euo pipefail
dir=$(mktemp -d)
# shellcheck source=findings/lib.bash
. "$(dirname "$0")/lib.bash"

go_module github.com/blang/semver/v4@v4.0.0
cat >"$dir/main.go" <<'END'
package main

import (
	"fmt"

	"github.com/blang/semver/v4"
)

func main() {
	for _, driver := range []string{"570.133.20", "580.95.05", "6.16.6", "6.19.14.31400000"} {
		_, err := semver.Parse(driver)
		fmt.Printf("%s: %v\n", driver, err)
	}
}
END
expect <<'END' || exit 1
570.133.20: <nil>
580.95.05: Patch number must not contain leading zeroes "05"
6.16.6: <nil>
6.19.14.31400000: Invalid character(s) found in patch number "14.31400000"
END
