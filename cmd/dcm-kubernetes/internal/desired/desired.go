// Package desired reads the configuration of a ConfigMap that the kubelet mounts. dcm
// interprets it.
package desired

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fsnotify/fsnotify"

	"dcm/cmd/dcm-kubernetes/internal/sequence"
	"dcm/cmd/dcm-kubernetes/internal/vendor"
)

// Dir is the mount point of the ConfigMap. The mount is optional: without a ConfigMap the
// directory is empty.
type Dir string

// tomlKey is the key of the ConfigMap with dcm's own format. The other keys are those of the
// vendors' managers.
const tomlKey = "dcm.toml"

// generated is the text of a host whose profiles dcm generates from the GPUs.
const generated = "version = 1\n"

// Read returns the current configuration for GPUs of a vendor.
func (d Dir) Read(v *vendor.Vendor) sequence.Config {
	own, err1 := os.ReadFile(filepath.Join(string(d), v.ConfigKey))
	inTOML, err2 := os.ReadFile(filepath.Join(string(d), tomlKey))
	switch {
	case err1 == nil && err2 == nil:
		return problem(sequence.InvalidProfile, "the ConfigMap has both "+v.ConfigKey+" and "+tomlKey+". hint: remove one of them")
	case err1 == nil && v == vendor.NVIDIA:
		return migParted(own)
	case err1 == nil && !json.Valid(own):
		return problem(sequence.InvalidJSON, v.ConfigKey+" of the ConfigMap is not JSON: "+where(own))
	case err1 == nil:
		return config(own)
	case err2 == nil:
		return config(inTOML)
	case !errors.Is(err1, fs.ErrNotExist) || !errors.Is(err2, fs.ErrNotExist):
	case v.Generated:
		return config([]byte(generated))
	default:
		return problem(sequence.NoConfigMap, "no ConfigMap with the key "+v.ConfigKey+". hint: create the ConfigMap that the DaemonSet mounts")
	}
	return problem(sequence.NoConfigMap, fmt.Sprintf("cannot read the ConfigMap: %v", errors.Join(err1, err2)))
}

func config(text []byte) sequence.Config {
	sum := sha256.Sum256(text)
	return sequence.Config{Text: string(text), Hash: hex.EncodeToString(sum[:8])}
}

func problem(reason, message string) sequence.Config {
	return sequence.Config{Problem: &sequence.Outcome{Reason: reason, Message: message}}
}

// where returns the byte offset of a JSON error.
func where(text []byte) string {
	var anything any
	err := json.Unmarshal(text, &anything)
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		return fmt.Sprintf("at byte %d: %v", syntax.Offset, err)
	}
	return err.Error()
}

// Watch calls changed after each update by the kubelet, until ctx ends.
func (d Dir) Watch(ctx context.Context, changed func()) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("cannot watch the ConfigMap: %w", err)
	}
	defer watcher.Close()
	// The kubelet replaces a link in this directory and never writes to its target.
	if err := watcher.Add(string(d)); err != nil {
		return fmt.Errorf("cannot watch the ConfigMap: %w", err)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-watcher.Events:
			changed()
		case err := <-watcher.Errors:
			return fmt.Errorf("cannot watch the ConfigMap: %w", err)
		}
	}
}
