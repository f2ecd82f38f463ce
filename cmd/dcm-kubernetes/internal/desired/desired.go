// Package desired reads the configuration that a ConfigMap brings to the node, as the
// kubelet mounts it. It does not know what a configuration means: dcm does.
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
)

// Dir is where the ConfigMap is mounted. The mount is optional: an empty directory is
// one without a ConfigMap.
type Dir string

// The keys of the ConfigMap: AMD's manager's, and dcm's own form.
const (
	jsonKey = "config.json"
	tomlKey = "dcm.toml"
)

// Read reads what is there now.
func (d Dir) Read() sequence.Config {
	inJSON, err1 := os.ReadFile(filepath.Join(string(d), jsonKey))
	inTOML, err2 := os.ReadFile(filepath.Join(string(d), tomlKey))
	switch {
	case err1 == nil && err2 == nil:
		return problem(sequence.InvalidProfile, "the ConfigMap has both "+jsonKey+" and "+tomlKey+": leave one of them")
	case err1 == nil && !json.Valid(inJSON):
		return problem(sequence.InvalidJSON, jsonKey+" of the ConfigMap is not JSON: "+where(inJSON))
	case err1 == nil:
		return config(inJSON)
	case err2 == nil:
		return config(inTOML)
	case errors.Is(err1, fs.ErrNotExist) && errors.Is(err2, fs.ErrNotExist):
		return problem(sequence.NoConfigMap, "there is no ConfigMap with the key "+jsonKey+": make the one that the DaemonSet mounts")
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

// where says at which byte the text is not JSON.
func where(text []byte) string {
	var anything any
	err := json.Unmarshal(text, &anything)
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		return fmt.Sprintf("at byte %d: %v", syntax.Offset, err)
	}
	return err.Error()
}

// Watch calls changed whenever the kubelet has brought another text, until ctx ends.
func (d Dir) Watch(ctx context.Context, changed func()) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("cannot watch the ConfigMap: %w", err)
	}
	defer watcher.Close()
	// The kubelet renames a link in this directory; what it links to is never written to.
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
