package selection

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"dcm/internal/engine/config"
	"dcm/internal/engine/config/source"
)

// keptHead is the head of the saved file.
const keptHead = "# Written by dcm.service: the last good configuration. It is effective until the next\n" +
	"# boot while the configuration files cannot be used.\n"

// SaveLastGood saves a good configuration for [Effective]. Only the daemon calls it.
func SaveLastGood(p config.Paths, c *config.Config) error {
	text := keptHead + config.Format(c)
	if old, err := os.ReadFile(p.Kept); err == nil && string(old) == text {
		return nil
	}
	was, err := os.Lstat(p.Kept)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(p.Kept), 0o755); err == nil {
			err = source.ReplaceFile(p.Kept, text, was)
		}
	}
	if err != nil {
		return fmt.Errorf("cannot save the last good configuration in %s: %w", p.Kept, err)
	}
	return nil
}

// Effective returns the configuration of the files, or else the last good one. broken is the error of
// the files in the second case; err is that error if there is no last good configuration.
func Effective(p config.Paths) (c *config.Config, broken, err error) {
	c, err = config.Load(p)
	if err == nil {
		return c, nil, nil
	}
	kept, none := LastGood(p)
	if none != nil {
		return nil, nil, err
	}
	return kept, err, nil
}

// LastGood loads the saved configuration with the same checks as [config.Load].
func LastGood(p config.Paths) (*config.Config, error) {
	return config.LoadFile(p, p.Kept)
}
