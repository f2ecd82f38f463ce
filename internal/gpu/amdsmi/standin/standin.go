// Package standin builds test doubles of libamd_smi.so from C, one for each numbering of the
// library, over a sysfs tree. Only tests and benchmarks use it. It knows nothing of dcm's
// tables: the C source has its own numbers and structures.
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

// source is the test double of libamd_smi.
//
//go:embed testdata/standin.c
var source string

// drm is the test double of libdrm and libdrm_amdgpu for the real libamd_smi.
//
//go:embed testdata/drm.c
var drm string

// Generation is one version of the library.
type Generation struct {
	Name    string // "rocm-6.1.2"
	Version string // version that it reports
	number  string // GEN in the C source
}

// Generations lists the numberings, oldest first.
func Generations() []Generation {
	return []Generation{
		{"rocm-6.0", "23.4.0.0", "2304"},
		{"rocm-6.1.2", "24.5.2.0", "2405"},
		{"rocm-6.2.4", "24.6.3.0", "2406"},
		{"towards-6.3", "24.7.0.0", "2407"},
		{"rocm-7.1", "26.1.0", "2601"},
		{"rocm-10.1", "27.1.0", "2701"},
	}
}

// Find returns the generation of that name.
func Find(name string) Generation {
	for _, g := range Generations() {
		if g.Name == name {
			return g
		}
	}
	return Generation{}
}

// Latest returns the newest generation.
func Latest() Generation { return Find("rocm-10.1") }

// ErrNoCompiler means that there is no C compiler.
var ErrNoCompiler = errors.New("there is no C compiler (cc)")

// Build builds the library in dir without the hidden symbols and returns its path.
func Build(ctx context.Context, dir string, g Generation, hidden ...string) (string, error) {
	lib := filepath.Join(dir, "libamd_smi.so."+g.Name)
	if err := Readable(dir); err != nil {
		return "", err
	}
	flags := []string{"-DGEN=" + g.number, fmt.Sprintf("-DVERSION=%q", g.Version)}
	if len(hidden) > 0 {
		script := filepath.Join(dir, "hidden.map")
		text := "{ local: " + strings.Join(hidden, "; ") + "; };\n"
		if err := os.WriteFile(script, []byte(text), 0o644); err != nil {
			return "", fmt.Errorf("cannot write the version script: %w", err)
		}
		flags = append(flags, "-Wl,--version-script="+script)
	}
	return lib, compile(ctx, source, lib, flags...)
}

// BuildDRM builds libdrm.so.2 and libdrm_amdgpu.so.1 in dir, for the real libamd_smi on a
// node whose render nodes are plain files.
func BuildDRM(ctx context.Context, dir string) error {
	for _, name := range []string{"libdrm.so.2", "libdrm_amdgpu.so.1"} {
		if err := compile(ctx, drm, filepath.Join(dir, name), "-Wl,-soname,"+name); err != nil {
			return err
		}
	}
	return nil
}

// Readable makes a directory of a test readable for every user, since dcm-smi reads as an
// unprivileged user.
func Readable(dir string) error {
	for top := filepath.Clean(os.TempDir()); len(dir) > len(top) && strings.HasPrefix(dir, top); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			return fmt.Errorf("cannot give other users access: %w", err)
		}
	}
	return nil
}

func compile(ctx context.Context, text, lib string, flags ...string) error {
	cc, err := exec.LookPath("cc")
	if err != nil {
		return ErrNoCompiler
	}
	args := append([]string{"-x", "c", "-", "-shared", "-fPIC", "-O1", "-Wall", "-Wno-unused-function", "-o", lib}, flags...)
	cmd := exec.CommandContext(ctx, cc, args...)
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build %s: %w\n%s", lib, err, out)
	}
	return nil
}

// Turn sets knobs of a built library: "sys PATH", and those of the C source.
func Turn(lib string, knobs ...string) error {
	text := strings.Join(knobs, "\n") + "\n"
	if err := os.WriteFile(lib+".knobs", []byte(text), 0o644); err != nil {
		return fmt.Errorf("cannot set the knobs of %s: %w", lib, err)
	}
	return nil
}
