// Command make writes the table "Tested on" into README.md and dcm(1). It runs in the
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
	for file, replace := range map[string]func(string, []testedon.Result) (string, error){
		"README.md": testedon.README, "packaging/man/dcm.1": testedon.Manual,
	} {
		text, err := os.ReadFile(top + "/" + file)
		if err != nil {
			return err
		}
		next, err := replace(string(text), all)
		if err != nil {
			return err
		}
		if err := os.WriteFile(top+"/"+file, []byte(next), 0o644); err != nil {
			return err
		}
	}
	return nil
}
