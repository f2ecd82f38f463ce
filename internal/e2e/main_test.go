package e2e_test

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"testing"
)

// TestMain has twice as many tests run at once as there are processors, if nobody says
// how many: a container mostly waits, for a boot, a hang or a retry.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", fmt.Sprint(2*runtime.GOMAXPROCS(0))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}
