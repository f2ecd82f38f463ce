package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// SelectionFile is the drop-in that holds a selection made by a command. The name
// sorts after every other that begins with a digit or a small letter, so that
// the command wins over the other drop-ins of its directory.
const SelectionFile = "zz-selected.toml"

// WriteSelection selects the profile by a drop-in in dir, [Paths].Local to stay or
// [Paths].Runtime until reboot, and makes the directory if need be. The file is
// there as a whole or not at all. None, or "", selects no profile.
func WriteSelection(dir, name string) error {
	if name == None {
		name = ""
	}
	if f := selectable(name); f != nil {
		return fmt.Errorf("cannot select profile %s: %s", clip(name), f)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("cannot select profile %s: %w", clip(name), err)
	}
	text := "# Written by dcm: \"dcm use\" in /etc, to stay; \"dcm apply\" in /run, until reboot.\n" +
		"# Wins over dcm.toml. Removing this file undoes the selection.\n" +
		"profile = " + quote(name) + "\n"
	path := filepath.Join(dir, SelectionFile)
	if err := renameio.WriteFile(path, []byte(text), 0o644, renameio.WithStaticPermissions(0o644), renameio.WithTempDir(dir)); err != nil {
		return fmt.Errorf("cannot select profile %s: %w", clip(name), err)
	}
	return nil
}

// RemoveSelection undoes [WriteSelection]. That there is nothing to undo is no
// error.
func RemoveSelection(dir string) error {
	err := os.Remove(filepath.Join(dir, SelectionFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot undo the selection: %w", err)
	}
	return nil
}
