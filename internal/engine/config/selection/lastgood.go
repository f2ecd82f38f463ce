package selection

import (
	"dcm/internal/engine/config"
	"dcm/internal/engine/config/source"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// keptHead says to a reader of the copy what it is.
const keptHead = "# Written by dcm.service: the last good configuration. It is effective until the next\n" +
	"# boot while the configuration files cannot be used.\n"

// SaveLastGood writes down a configuration that was in order, for [Effective]. The daemon alone
// does so.
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

// Effective is [config.Load], or else what was kept. broken is why it is not what the files
// say; err is the same where nothing was kept.
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

// LastGood reads what was kept, as strictly as if somebody had written it by hand.
func LastGood(p config.Paths) (*config.Config, error) {
	return config.LoadFile(p, p.Kept)
}
