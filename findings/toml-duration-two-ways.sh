#!/bin/bash
# Guess:     two TOML libraries for Go write a time.Duration in the same way, and each reads what the other writes.
# Behaviour: BurntSushi/toml writes the text "1m30s", and go-toml the number of nanoseconds. go-toml refuses the text.
#            BurntSushi/toml reads a text with a unit, and also a number, so 90 are 90 nanoseconds.
# Versions seen: github.com/BurntSushi/toml v1.6.0, github.com/pelletier/go-toml/v2 v2.4.3
# Met by:    projects that change the library, and pairs of a tool that writes a configuration and a service that reads
#            it.
# Fails:     if the output is not that at the end of this script, which was seen with these versions.
set -euo pipefail
dir=$(mktemp -d)
# shellcheck source=findings/lib.bash
. "$(dirname "$0")/lib.bash"

go_module github.com/BurntSushi/toml@v1.6.0 github.com/pelletier/go-toml/v2@v2.4.3
cat >"$dir/main.go" <<'END'
package main

import (
	"fmt"
	"time"

	burntsushi "github.com/BurntSushi/toml"
	pelletier "github.com/pelletier/go-toml/v2"
)

type config struct {
	Timeout time.Duration
}

func main() {
	ninety := config{Timeout: 90 * time.Second}
	byBurntSushi, err := burntsushi.Marshal(ninety)
	fmt.Printf("BurntSushi/toml writes %q, error: %v\n", byBurntSushi, err)
	byPelletier, err := pelletier.Marshal(ninety)
	fmt.Printf("go-toml writes %q, error: %v\n", byPelletier, err)

	for _, text := range []string{string(byBurntSushi), string(byPelletier), "Timeout = 90\n"} {
		var first, second config
		err := burntsushi.Unmarshal([]byte(text), &first)
		fmt.Printf("%q is %v for BurntSushi/toml, error: %v\n", text, first.Timeout, err)
		err = pelletier.Unmarshal([]byte(text), &second)
		fmt.Printf("%q is %v for go-toml, error: %v\n", text, second.Timeout, err)
	}
}
END
expect <<'END' || exit 1
BurntSushi/toml writes "Timeout = \"1m30s\"\n", error: <nil>
go-toml writes "Timeout = 90000000000\n", error: <nil>
"Timeout = \"1m30s\"\n" is 1m30s for BurntSushi/toml, error: <nil>
"Timeout = \"1m30s\"\n" is 0s for go-toml, error: toml: cannot decode TOML string into struct field main.config.Timeout of type time.Duration
"Timeout = 90000000000\n" is 1m30s for BurntSushi/toml, error: <nil>
"Timeout = 90000000000\n" is 1m30s for go-toml, error: <nil>
"Timeout = 90\n" is 90ns for BurntSushi/toml, error: <nil>
"Timeout = 90\n" is 90ns for go-toml, error: <nil>
END
