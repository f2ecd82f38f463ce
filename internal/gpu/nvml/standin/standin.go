// Package standin builds a test double of libnvidia-ml.so.1 from C. It reads and writes the
// state of the simulated machine: GPUs, their profiles and instances, and knobs for faults.
// Only tests, benchmarks and the simulator use it; it is never shipped. The C source has its
// own numbers and structures.
//
// The state is lines of text, each a word and fields separated by blanks.
//
//	driver 580.82.07
//	nvml 13.580.82.07
//	epoch N                 number of module loads; handles of another epoch are invalid
//	loaded 0|1              the module is loaded
//	privileged 0|1          a change needs CAP_SYS_ADMIN; a list of instances needs it or
//	                        root's access to the capability mig/config
//	held 0|1                a kernel module holds every GPU, so that none can be reset
//	gpu …                   see [GPU], in the order of its fields
//	profile GPU …           see [Profile]
//	gi GPU ID PROFILE START BUSY  a GPU instance; PROFILE is the index of a profile line,
//	                        from 0; see [Instance]
//	ci GPU GI ID SLICES START
//	process GPU PID MEMORY GI CI GRAPHICS
//	knob NAME [VALUE]
//
// GPU is the index of a gpu line, from 0. The knobs:
//
//	fail FUNCTION STATUS [AFTER [TIMES [ADDRESS]]]  a function returns a status, after AFTER
//	                        calls, TIMES times (0: always), for one GPU (-: any)
//	meanwhile FUNCTION LINE  before the function, another process adds a line of the state, or
//	                        destroys an instance ("gone GPU ID"), once
//	hang, abort, segv FUNCTION
//	in-use ADDRESS          the GPU is busy
//	mode-activation STATUS [ADDRESS]  activation status of a successful SetMigMode
//	mode-nothing, mode-late the mode does not change, or is only pending
//	late-lie [ADDRESS [mode | instance]]  a mode, or a destroyed instance, is as before a second after
//	                        the success, once
//	later TIME LINE         what comes back then: written by late-lie
//	names-with-mig          profiles have names only with MIG on
//	profiles-with-mig       no profiles with MIG off, as with driver 535
//	places-with-mig         no placements with MIG off
//	wrong-counts N          profiles report N more instances than fit, as for an A30
//	ids-reversed [ADDRESS]  new instances have other ids, on that GPU or on all
//	misplaced, ghost-compute  an instance has another placement, or does not exist
//	no-serial               the boards have no serial number
//	mig-utilization         the utilization of MIG devices is reported
//	other-gpu, null-handles, null-instances, garbage-text, -name, -count, -mode, -placement, -slices
//	profile-count N         GPU instance profiles have indices below N, and above the last
//	                        profile of a GPU (0x12 by default)
//	compute-nvl INDEX       the compute instance of seven slices has profile 8 or 9
//	nodes DIR MAJOR         DIR/nvidiactl and DIR/nvidiaN must be accessible, and the nodes of
//	                        capabilities are below DIR/nvidia-caps with that major number;
//	                        a process of root creates, corrects and replaces them
//	params UID GID MODE MODIFY  owner and mode of GPU nodes, as the driver's parameters
//	                        NVreg_DeviceFileUID and so on (0 0 0666 1)
//	unlisted                a GPU whose node cannot be opened is not found instead of forbidden
//	log FILE                log every call for a GPU, the load and the end: function, GPU or
//	                        "-", unit and PID of the caller; for a process that loads the
//	                        library with this knob, until its end
//	noise                   write to standard output
//	confess FILE            try what hostile code would
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

// ErrNoCompiler means that there is no C compiler.
var ErrNoCompiler = errors.New("there is no C compiler (cc)")

// Name is the SONAME of the library.
const Name = "libnvidia-ml.so.1"

// Build builds the library in dir without the hidden functions and returns its path.
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

// Compile compiles C code that includes the structures.
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

// StateOf returns the path of the state of a built library. It may be a link.
func StateOf(lib string) string { return lib + ".state" }
