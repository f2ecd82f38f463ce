package main

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// moduleOptions returns the options of the module from modprobe.d(5) and the kernel command
// line. Like modprobe, it ignores unreadable files.
func moduleOptions(root string) map[string]string {
	files := make(map[string]string) // a file in a later directory replaces one of the same name
	for _, dir := range []string{"usr/lib/modprobe.d", "run/modprobe.d", "etc/modprobe.d"} {
		found, err := filepath.Glob(filepath.Join(root, dir, "*.conf"))
		if err != nil {
			continue
		}
		for _, f := range found {
			files[filepath.Base(f)] = f
		}
	}
	options := make(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text, err := os.ReadFile(files[name])
		if err != nil {
			continue
		}
		text = bytes.ReplaceAll(text, []byte("\\\n"), []byte(" "))
		for line := range strings.Lines(string(text)) {
			words := strings.Fields(line)
			if len(words) > 2 && words[0] == "options" && words[1] == module {
				assign(options, words[2:])
			}
		}
	}
	if text, err := os.ReadFile(filepath.Join(root, "proc/cmdline")); err == nil {
		var own []string
		for _, word := range strings.Fields(string(text)) {
			if option, ok := strings.CutPrefix(word, module+"."); ok {
				own = append(own, option)
			}
		}
		assign(options, own)
	}
	return options
}

func assign(options map[string]string, words []string) {
	for _, w := range words {
		name, value, _ := strings.Cut(w, "=")
		options[name] = value
	}
}
