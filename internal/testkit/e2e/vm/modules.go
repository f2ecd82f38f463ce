package vm

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

//go:embed kmod
var sources embed.FS

//go:embed modules.sh
var modulesScript string

// buildModules returns a directory of the cache with the kernel modules for the kernel of
// the root, which is in its first layer.
func buildModules(ctx context.Context, root layers, log io.Writer) (string, error) {
	kernels, err := filepath.Glob(filepath.Join(root[0], "usr/lib/modules/*"))
	if err != nil || len(kernels) != 1 {
		return "", fmt.Errorf("%s has the kernels %q, want one", root[0], kernels)
	}
	dir, err := os.MkdirTemp("", "kmod-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	code, mounts := filepath.Join(dir, "kmod"), filepath.Join(dir, "mounts")
	for _, d := range []string{code, mounts} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return "", err
		}
	}
	sum := sha256.New()
	fmt.Fprintln(sum, kernels, modulesScript)
	if err := copySources(code, sum); err != nil {
		return "", err
	}
	out := root[0] + "-kmod-" + hex.EncodeToString(sum.Sum(nil)[:6])
	return cached(out, "kernel modules", log, func(partial string) error {
		return script(ctx, log, modulesScript, root.String(), code, partial, mounts)
	})
}

// copySources writes the modules' sources to the directory and to sum.
func copySources(dir string, sum io.Writer) error {
	return fs.WalkDir(sources, "kmod", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := sources.ReadFile(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(sum, "%s %d\n%s", path, len(content), content)
		return os.WriteFile(filepath.Join(dir, filepath.Base(path)), content, 0o644)
	})
}

// script runs a shell script in a new mount namespace, so that its mounts end with it.
func script(ctx context.Context, log io.Writer, text string, args ...string) error {
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", text, "sh"}, args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	return cmd.Run()
}
