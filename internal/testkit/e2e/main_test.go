package e2e_test

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// TestMain starts all parallel tests unless the command line sets a number:
// each waits for its turn with a container.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", "1000"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}
