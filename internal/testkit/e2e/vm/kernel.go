package vm

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
)

//go:embed kernel.sh
var kernelScript string

// dmemConfig has the dmem controller, which Debian's kernels do not have.
//
//go:embed kernel.config
var dmemConfig string

// layers are the directories of a root file system, the upper ones first.
type layers []string

// String returns the layers as overlayfs takes them.
func (l layers) String() string { return strings.Join(l, ":") }

// root returns the root file system of the guest, with the kernel in its first layer.
func (g Guest) root(ctx context.Context, log io.Writer) (layers, error) {
	root, err := g.recipe.Directory(ctx, log)
	if err != nil || g.config == "" {
		return layers{root}, err
	}
	kernel, err := buildKernel(ctx, root, g.config, log)
	return layers{kernel, root}, err
}

// buildKernel returns a directory of the cache with a kernel of the root's source, which takes some
// minutes of processor time to compile.
func buildKernel(ctx context.Context, root, config string, log io.Writer) (string, error) {
	sum := sha256.Sum256([]byte(kernelScript + config))
	out := root + "-kernel-" + hex.EncodeToString(sum[:6])
	return cached(out, "a kernel", log, func(partial string) error {
		work := out + ".work"
		options := filepath.Join(work, "config")
		err := errors.Join(os.RemoveAll(work), os.Mkdir(work, 0o700))
		if err == nil {
			err = os.WriteFile(options, []byte(config), 0o600)
		}
		if err == nil {
			err = script(ctx, log, kernelScript, root, options, partial, work)
		}
		return errors.Join(err, os.RemoveAll(work))
	})
}
