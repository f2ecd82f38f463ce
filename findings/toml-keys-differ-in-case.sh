#!/bin/bash
# Guess:     TOML keys are case-sensitive. So the decoder leaves Profile = "b" out of a field with
#            the tag "profile", and MetaData.Undecoded names it as an unknown key.
# Behaviour: the decoder also accepts a key that differs only in case, and Undecoded is empty. If
#            a file has both keys, which TOML permits, either value can win: it differs from one
#            decoding to the next.
# Versions seen: github.com/BurntSushi/toml v1.6.0
# Met by:    daemons that reject unknown keys by Undecoded, and fleets in which two tools write
#            the same setting.
# Fails:     if the output is not that at the end of this script, which was seen with these versions.
set -euo pipefail
dir=$(mktemp -d)
# shellcheck source=findings/lib.bash
. "$(dirname "$0")/lib.bash"

go_module github.com/BurntSushi/toml@v1.6.0
cat >"$dir/main.go" <<'END'
package main

import (
	"fmt"
	"slices"

	"github.com/BurntSushi/toml"
)

func decode(text string) (string, []toml.Key) {
	var config struct {
		Selected string `toml:"profile"`
	}
	meta, err := toml.Decode(text, &config)
	if err != nil {
		panic(err)
	}
	return config.Selected, meta.Undecoded()
}

func main() {
	value, unknown := decode("Profile = \"b\"\n")
	fmt.Printf("Profile alone: %q, unknown keys %v\n", value, unknown)

	var values []string
	left := 0
	for range 1000 {
		value, unknown := decode("profile = \"a\"\nProfile = \"b\"\n")
		if !slices.Contains(values, value) {
			values = append(values, value)
		}
		left = max(left, len(unknown))
	}
	slices.Sort(values)
	fmt.Printf("both, in 1000 decodings: %q, unknown keys %d\n", values, left)
}
END
expect <<'END' || exit 1
Profile alone: "b", unknown keys []
both, in 1000 decodings: ["a" "b"], unknown keys 0
END
