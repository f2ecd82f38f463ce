// Command make writes a container image: make image, make host-image.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"dcm/cmd/dcm-kubernetes/internal/image"
)

func main() {
	out := flag.String("o", "", "the `directory` to make")
	name := flag.String("name", "dcm-kubernetes", "the image's `name`, and the program's that it runs")
	version := flag.String("version", "", "the program's `version`")
	epoch := flag.Int64("epoch", 0, "`seconds` since 1970 that all in it is dated with")
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
	if err := image.Write(*out, image.About{Name: *name, Version: *version, Made: time.Unix(*epoch, 0).UTC()}, programs); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}
