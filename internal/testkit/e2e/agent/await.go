package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/fsnotify/fsnotify"
)

// await returns when the file contains all of the texts. inotify wakes it. The caller sets the deadline.
func await(file string, texts []string) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer w.Close()
	if err := w.Add(filepath.Dir(file)); err != nil {
		return err
	}
	for !holds(file, texts) {
		select {
		case <-w.Events:
		case err := <-w.Errors:
			return fmt.Errorf("cannot watch %s: %w", file, err)
		}
	}
	return nil
}

func holds(file string, texts []string) bool {
	content, err := os.ReadFile(file)
	if err != nil {
		return false // it does not exist yet, or is being replaced
	}
	for _, text := range texts {
		if !strings.Contains(string(content), text) {
			return false
		}
	}
	return true
}
