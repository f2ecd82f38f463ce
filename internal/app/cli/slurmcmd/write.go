package slurmcmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
	"dcm/internal/frontends/slurm"
	"dcm/internal/linux/atomicfile"
	"dcm/internal/sanitize"
)

// writeGres replaces gres.conf, makes slurmd read it, and drains the node if slurm.conf does not
// have its GRES. It reloads slurmd also if the file is unchanged, since an earlier reload may have failed.
// unknown is the error of [generic]. If no job can use a GPU, writeGres first drains the node and then
// writes a file without devices.
func writeGres(ctx context.Context, h *host.Host, con *console.Console, g slurm.Gres, unknown error, path string) error {
	if err := h.NeedRoot("writing gres.conf"); err != nil {
		return err
	}
	closed := errors.Is(unknown, slurm.ErrNoPartition) || errors.Is(unknown, slurm.ErrUnread)
	if unknown != nil && (!closed || ctx.Err() != nil) {
		return unknown
	}
	path, before, err := readGres(h.Path(path))
	if err != nil {
		return err
	}
	c := slurm.Controller{NodeName: g.Node, Run: slurm.Scontrol}
	log := func(what string) { fmt.Fprintln(con.Out, what) }
	if !closed {
		if err := replaceGres(ctx, h, log, g, path, before); err != nil {
			return err
		}
		return c.CheckGres(ctx, g, log)
	}
	why, _, _ := strings.Cut(sanitize.Text(unknown.Error()), "\n")
	_, err = c.DrainFor(ctx, slurm.Mark+why, log)
	err = errors.Join(err, replaceGres(ctx, h, log, slurm.Gres{Node: g.Node, Note: "No device: " + why}, path, before))
	if errors.Is(unknown, slurm.ErrUnread) {
		err = errors.Join(unknown, err) // the unit tries again
	}
	return err
}

// readGres returns the file that path names, also by a symbolic link, and its text. It fails if another program has written the file.
func readGres(path string) (file, text string, err error) {
	file, err = filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, missing := os.Lstat(path); missing == nil {
			return "", "", sanitize.Error(err) // a link to a file that is missing
		}
		return path, "", nil
	}
	if err != nil {
		return "", "", sanitize.Error(err)
	}
	before, err := os.ReadFile(file)
	switch {
	case err != nil:
		return "", "", sanitize.Error(err)
	case !slurm.IsGres(string(before)):
		return "", "", exitcode.With(exitcode.Usage, fmt.Errorf("%s: has other lines than those of dcm\nhint: move them to another file, and include both from gres.conf", sanitize.Text(path)))
	}
	return file, string(before), nil
}

// replaceGres writes the file if it differs, and reloads slurmd.
func replaceGres(ctx context.Context, h *host.Host, log func(string), g slurm.Gres, path, before string) error {
	if text := g.Conf(); text != before {
		if err := atomicfile.Write(path, []byte(text), atomicfile.Options{Mode: 0o644, SyncDir: true}); err != nil {
			return sanitize.Error(err)
		}
		log(fmt.Sprintf("%s: changed to Gres=%s", sanitize.Text(path), g.Counts()))
	}
	return reloadSlurmd(ctx, h)
}
