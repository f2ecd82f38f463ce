package e2e_test

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// TestMain removes the limit of parallel tests unless the command line sets one. The tests wait
// for a container instead, see [turns].
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
