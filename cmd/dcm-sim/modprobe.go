package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

func newModprobe() *cobra.Command {
	return &cobra.Command{
		Use:   "modprobe [--mount DIR] [-r] MODULE [NAME=VALUE]...",
		Short: "stand in for modprobe",
		Long:  "modprobe does to the simulated amdgpu what modprobe(8) does to the real one.\nIt succeeds for every other module without doing anything.",
		// The flags are modprobe's.
		DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error {
			if code := modprobe(args, "/", c.ErrOrStderr()); code != 0 {
				return exitCode(code)
			}
			return nil
		},
	}
}

const module = "amdgpu"

// modprobe implements modprobe(8) for amdgpu. root is the root directory of its
// configuration.
func modprobe(args []string, root string, stderr io.Writer) int {
	r := parseModprobe(args)
	for _, name := range r.modules {
		if name = strings.ReplaceAll(name, "-", "_"); !r.dry && (name == "nvidia" || name == displayModule) {
			return modprobeNVIDIA(r, name, stderr)
		}
	}
	if !slices.Contains(r.modules, module) || r.dry {
		return 0
	}
	message, doing := "unload", "remove"
	if !r.remove {
		options := moduleOptions(root)
		maps.Copy(options, r.options)
		message, doing = "load"+words(options), "insert"
	}
	err := control(r.mount, "module", message)
	switch {
	case err == nil, r.remove && errors.Is(err, syscall.ENOENT) && mountedAt(r.mount):
		// Removing a module that is not loaded succeeds.
		return 0
	case r.quiet:
	case r.remove && errors.Is(err, syscall.EBUSY):
		fmt.Fprintf(stderr, "modprobe: FATAL: Module %s is in use.\n", module)
	default:
		var e syscall.Errno
		if errors.As(err, &e) {
			err = capitalised(e)
		}
		fmt.Fprintf(stderr, "modprobe: ERROR: could not %s '%s': %v\n", doing, module, err)
	}
	return 1
}

// displayModule is the module with the DRM devices of NVIDIA's GPUs.
const displayModule = "nvidia_drm"

// modprobeNVIDIA does the same for nvidia, with all modules that use it, or for nvidia_drm alone.
func modprobeNVIDIA(r modprobeRequest, name string, stderr io.Writer) int {
	message := "load"
	if r.remove {
		message = "unload"
	}
	if name == displayModule {
		message += " " + name
	}
	err := control(r.mount, "nvidia", message)
	if err == nil || r.remove && errors.Is(err, syscall.ENOENT) && mountedAt(r.mount) {
		return 0
	}
	fmt.Fprintf(stderr, "modprobe: FATAL: cannot %s: %v\n", message, err)
	return 1
}

// rmmod implements rmmod(8) for nvidia_drm. It succeeds for every other module without doing anything.
func rmmod(args []string, stderr io.Writer) int {
	if !slices.Contains(args, displayModule) {
		return 0
	}
	err := control(defaultMount(), "nvidia", "unload "+displayModule)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, syscall.EBUSY):
		fmt.Fprintf(stderr, "rmmod: ERROR: Module %s is in use\n", displayModule)
	default:
		fmt.Fprintf(stderr, "rmmod: ERROR: could not remove '%s': %v\n", displayModule, err)
	}
	return 1
}

// capitalised returns the text of an errno as the C library prints it.
func capitalised(e syscall.Errno) error {
	text := e.Error()
	return errors.New(strings.ToUpper(text[:1]) + text[1:])
}

func mountedAt(dir string) bool {
	_, err := os.Stat(dir + "/ctl/module")
	return err == nil
}

// words formats options as on a command line.
func words(options map[string]string) string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(options)) {
		fmt.Fprintf(&out, " %s=%s", name, options[name])
	}
	return out.String()
}

type modprobeRequest struct {
	mount              string
	remove, dry, quiet bool
	modules            []string
	options            map[string]string
}

// parseModprobe parses modprobe's arguments. Short flags may be joined, "-abq".
func parseModprobe(args []string) modprobeRequest {
	r := modprobeRequest{mount: defaultMount(), options: make(map[string]string)}
	many := false
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		name, value, assigned := strings.Cut(arg, "=")
		next := func() string {
			if !assigned && len(args) > 0 {
				value, args = args[0], args[1:]
			}
			return value
		}
		switch {
		case name == "--mount":
			r.mount = next()
		case slices.Contains([]string{"-C", "--config", "-d", "--dirname", "-S", "--set-version", "-w", "--wait"}, name):
			next()
		case strings.HasPrefix(name, "--"):
			r.flag(strings.TrimPrefix(name, "--"))
			many = many || name == "--all"
		case strings.HasPrefix(name, "-"):
			for _, letter := range name[1:] {
				r.flag(string(letter))
			}
			many = many || strings.Contains(name, "a")
		case assigned:
			r.options[name] = value
		case len(r.modules) == 0 || many || r.remove:
			r.modules = append(r.modules, name)
		default:
			r.options[name] = ""
		}
	}
	return r
}

func (r *modprobeRequest) flag(name string) {
	switch name {
	case "r", "remove":
		r.remove = true
	case "n", "dry-run", "show":
		r.dry = true
	case "q", "quiet":
		r.quiet = true
	}
}
