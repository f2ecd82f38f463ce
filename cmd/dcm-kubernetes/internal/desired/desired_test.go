package desired_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"dcm/cmd/dcm-kubernetes/internal/desired"
	"dcm/cmd/dcm-kubernetes/internal/vendor"
)

func TestRead(t *testing.T) {
	tests := map[string]struct {
		files        map[string]string
		text, reason string
	}{
		"none": {nil, "", "ConfigMapNotPresent"},
		"JSON": {map[string]string{"config.json": "{}"}, "{}", ""},
		"TOML": {map[string]string{"dcm.toml": "a = 1"}, "a = 1", ""},
		"both": {map[string]string{"config.json": "{}", "dcm.toml": "a = 1"}, "", "InvalidProfileInfo"},
		"bad":  {map[string]string{"config.json": "{,"}, "", "InvalidJSONInConfigMap"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range tt.files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			got := desired.Dir(dir).Read(vendor.AMD)
			reason := ""
			if got.Problem != nil {
				reason = got.Problem.Reason
			}
			if got.Text != tt.text || reason != tt.reason || (got.Hash != "") != (reason == "") {
				t.Errorf("read %+v, %s", got, reason)
			}
		})
	}
}

// The kubelet creates a new directory and renames a link to it.
func TestWatch_ReportsUpdate(t *testing.T) {
	dir := t.TempDir()
	bring := func(version, text string) {
		for _, err := range []error{
			os.Mkdir(filepath.Join(dir, version), 0o755),
			os.WriteFile(filepath.Join(dir, version, "config.json"), []byte(text), 0o644),
			os.Symlink(version, filepath.Join(dir, "..data_tmp")),
			os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	bring("..1", "{}")
	if err := os.Symlink("..data/config.json", filepath.Join(dir, "config.json")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	changed, done := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		done <- desired.Dir(dir).Watch(ctx, func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		})
	}()
	// The watch may start after the first change, so the test repeats the change until it is seen.
	for i := 2; desired.Dir(dir).Read(vendor.AMD).Text != "[]" || len(changed) == 0; i++ {
		bring("..2"+string(rune('a'+i%26))+filepath.Base(t.TempDir()), "[]")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
