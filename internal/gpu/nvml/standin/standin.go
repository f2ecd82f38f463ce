// Package standin builds a stand-in for libnvidia-ml.so.1 from C, and writes and reads the
// state of the machine that it tells of: GPUs, their profiles and instances, and knobs for
// all that can go wrong. Only tests, benchmarks and the simulator use it, and it is never
// shipped. The C source has numbers and structures of its own.
//
// The state is lines of text: a word, and fields with a space between them.
//
//	driver 580.82.07
//	nvml 13.580.82.07
//	epoch N                 how often the module was loaded: of another one no handle is good
//	loaded 0|1              whether it is
//	privileged 0|1          whether a change takes CAP_SYS_ADMIN, and a list of instances
//	                        that or root's access to the capability mig/config
//	gpu …                   see [GPU], in the order of its fields
//	profile GPU …           see [Profile]
//	gi GPU ID PROFILE START a GPU instance; PROFILE counts the profile lines from 0
//	ci GPU GI ID SLICES START
//	process GPU PID MEMORY GI CI GRAPHICS
//	knob NAME [VALUE]
//
// GPU counts the gpu lines from 0. The knobs:
//
//	fail FUNCTION STATUS [AFTER [TIMES [ADDRESS]]]  a function gives a status, after so
//	                        many calls, so many times (0: always), for one GPU (-: any)
//	hang, abort, segv FUNCTION
//	in-use ADDRESS          as if somebody had the GPU open
//	mode-activation STATUS [ADDRESS]  what SetMigMode tells beside its success
//	mode-nothing, mode-late the mode is not changed at all, or pending only
//	names-with-mig          profiles have names with MIG on only, as is allowed
//	profiles-with-mig       with MIG off there is nothing to be told, as with driver 535
//	places-with-mig         nor the places
//	no-third-version        the structures are older, as with driver 535
//	wrong-counts N          profiles tell of N more instances than fit, as of an A30
//	ids-reversed [ADDRESS]  new instances have other ids, of that GPU or of all
//	misplaced, ghost-compute  an instance is elsewhere than asked for, or not there
//	mig-utilization         the utilization of MIG devices is told
//	other-gpu, null-handles, null-instances, garbage-text, -name, -count, -mode, -placement, -slices
//	profile-count N         GPU instance profiles have indices below N, and past the last
//	                        profile of a GPU (0x12 without it)
//	compute-nvl INDEX       the compute instance of seven slices is of the profile at 8 or 9
//	nodes DIR MAJOR         DIR/nvidiactl and DIR/nvidiaN have to let themselves be opened, and
//	                        the nodes of capabilities are below DIR/nvidia-caps, with that
//	                        major number. root's process makes, corrects and replaces them
//	params UID GID MODE MODIFY  what the nodes of GPUs are to have, as the driver's
//	                        parameters NVreg_DeviceFileUID and so on (0 0 0666 1)
//	unlisted                a GPU whose node cannot be opened is not found, in place of forbidden
//	log FILE                every call for a GPU is written down there, the load and the end:
//	                        the function, the GPU or "-", and the unit and the pid of who
//	                        called; by who loads it while the knob is there, to the end
//	noise                   it writes to standard output
//	confess FILE            it tries what hostile code would
package standin

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed testdata/layout.h
var layout string

//go:embed testdata/standin.c
var source string

// ErrNoCompiler says that there is no C compiler.
var ErrNoCompiler = errors.New("there is no C compiler (cc)")

// Name is the library's.
const Name = "libnvidia-ml.so.1"

// Build builds the library in dir, without the functions hidden, and returns its path.
func Build(ctx context.Context, dir string, hidden ...string) (string, error) {
	lib := filepath.Join(dir, Name)
	flags := []string{"-shared", "-fPIC", "-Wl,-soname," + Name, "-o", lib}
	if len(hidden) > 0 {
		script := filepath.Join(dir, "hidden.map")
		if err := os.WriteFile(script, []byte("{ local: "+strings.Join(hidden, "; ")+"; };\n"), 0o644); err != nil {
			return "", fmt.Errorf("cannot write the version script: %w", err)
		}
		flags = append(flags, "-Wl,--version-script="+script)
	}
	return lib, Compile(ctx, source, flags...)
}

// Compile compiles C that knows the structures.
func Compile(ctx context.Context, text string, flags ...string) error {
	cc, err := exec.LookPath("cc")
	if err != nil {
		return ErrNoCompiler
	}
	cmd := exec.CommandContext(ctx, cc, append([]string{"-x", "c", "-", "-O1", "-Wall", "-Werror"}, flags...)...)
	cmd.Stdin = strings.NewReader("#define _GNU_SOURCE\n" + layout + strings.TrimPrefix(text, "#define _GNU_SOURCE\n"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot compile the stand-in of %s: %w\n%s", Name, err, out)
	}
	return nil
}

// StateOf is where a library that Build built has its state, which may be a link.
func StateOf(lib string) string { return lib + ".state" }
