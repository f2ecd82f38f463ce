#!/bin/bash
# Guess:     go-systemd reads each unit file that systemd reads. A comment between the parts of a continued
#            line is one of the cases that systemd's manual shows.
# Behaviour: go-systemd ends the line at the comment, keeps the comment as a part of the value, and refuses
#            the file at the next part. systemd drops the comment and joins the parts.
# Versions seen: github.com/coreos/go-systemd/v22 v22.7.0, systemd 252.39-1~deb12u2
# Met by:    tools that read units of inference servers, whose long command lines are commented.
# Fails:     if the output is not that at the end of this script, which was seen with these versions.
set -euo pipefail
dir=$(mktemp -d)
# shellcheck source=findings/lib.bash
. "$(dirname "$0")/lib.bash"

go_module github.com/coreos/go-systemd/v22/unit@v22.7.0
debian_package systemd 252.39-1~deb12u2
debian_package libsystemd-shared 252.39-1~deb12u2
cat >"$dir/serve.service" <<'END'
[Service]
ExecStart=/bin/echo \
  --model small \
# one instance
  --device MIG-0
END
cat >"$dir/main.go" <<'END'
package main

import (
	"fmt"
	"os"
	"os/exec"

	"github.com/coreos/go-systemd/v22/unit"
)

func main() {
	file, _ := os.Open("serve.service")
	options, err := unit.DeserializeOptions(file)
	for _, option := range options {
		fmt.Printf("go-systemd: %s=%q\n", option.Name, option.Value)
	}
	fmt.Println("go-systemd:", err)

	verify := exec.Command("usr/bin/systemd-analyze", "verify", "--man=no", "./serve.service")
	verify.Env = []string{"LD_LIBRARY_PATH=usr/lib/x86_64-linux-gnu/systemd"}
	output, err := verify.CombinedOutput()
	fmt.Printf("systemd: %q, %v\n", output, err)
}
END
expect <<'END' || exit 1
go-systemd: ExecStart="/bin/echo \\\n  --model small \\\n# one instance"
go-systemd: unexpected newline encountered while parsing option name
systemd: "", <nil>
END
