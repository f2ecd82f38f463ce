package e2e_test

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// TestMain has every test begin that may run beside others, if nobody says how many:
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
