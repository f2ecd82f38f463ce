// Command make writes a container image: make image, make host-image.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"dcm/cmd/dcm-kubernetes/internal/image"
)

func main() {
	out := flag.String("o", "", "the `directory` to make")
	name := flag.String("name", "dcm-kubernetes", "`name` of the image, and of the program that it runs")
	version := flag.String("version", "", "the program's `version`")
	epoch := flag.Int64("epoch", 0, "`seconds` since 1970, the time stamp of all files")
	flag.Parse()
	var programs []image.Program
	for _, arg := range flag.Args() {
		arch, path, ok := strings.Cut(arg, "=")
		if !ok {
			fmt.Fprintf(os.Stderr, "image: %q is not ARCH=PROGRAM or ARCH=TREE\n", arg)
			os.Exit(2)
		}
		programs = append(programs, image.Program{Arch: arch, Path: path})
	}
	about := image.About{Name: *name, Version: *version, Made: time.Unix(*epoch, 0).UTC(), Revision: output("git", "-c", "safe.directory=*", "rev-parse", "HEAD")}
	about.License = "Apache-2.0 AND BSD-2-Clause AND BSD-3-Clause AND MIT" // as in packaging/nfpm.yaml
	if !tree(programs) {
		about.License = "Apache-2.0 AND BSD-3-Clause AND ISC AND MIT"
		about.Licenses = &image.Licenses{Own: []string{"../../LICENSE", "../../packaging/copyright"}, Modules: output("go", "env", "GOMODCACHE"), Go: output("go", "env", "GOROOT")}
	}
	if err := image.Write(*out, about, programs); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// tree reports whether the content of the image is a tree, which has its licence texts.
func tree(programs []image.Program) bool {
	if len(programs) == 0 {
		return false
	}
	info, err := os.Stat(programs[0].Path)
	return err == nil && info.IsDir()
}

// output returns the output of a command, in one line; "" if it fails.
func output(name string, args ...string) string {
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
