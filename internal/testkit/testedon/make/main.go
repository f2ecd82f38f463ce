// Command make writes the section TESTED ON of dcm-tested(7). It runs in the
// directory of package testedon, as go generate does.
package main

import (
	"fmt"
	"os"

	"dcm/internal/testkit/testedon"
)

func main() {
	if err := run("../../.."); err != nil {
		fmt.Fprintln(os.Stderr, "testedon:", err)
		os.Exit(1)
	}
}

func run(top string) error {
	all, err := testedon.Results()
	if err != nil {
		return err
	}
	file := top + "/packaging/man/dcm-tested.7"
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	next, err := testedon.Manual(string(text), all)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(next), 0o644)
}
