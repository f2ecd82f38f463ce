package leases

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// The process that keeps a lease ends after consecutive readings without another process, and not before.
func TestUntilIdle(t *testing.T) {
	for _, tt := range []struct{ name, procs, events string }{
		{"a process", "4711\n", ""},
		{"a process in a cgroup below", "", "populated 1\nfrozen 0\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cgroup := t.TempDir()
			write := func(path, text string) {
				path = filepath.Join(cgroup, path)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path+".new", []byte(text), 0o644), os.Rename(path+".new", path)); err != nil {
					t.Fatal(err)
				}
			}
			write("cgroup.procs", "12\n"+tt.procs)
			write("job/cgroup.events", tt.events)
			command := untilIdle(cgroup, 3*time.Millisecond, time.Millisecond)
			cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			select {
			case err := <-ended:
				t.Errorf("in use: the command ends: %v", err)
			case <-time.After(100 * time.Millisecond):
			}
			write("cgroup.procs", "12\n")
			write("job/cgroup.events", "populated 0\nfrozen 0\n")
			if err := <-ended; err != nil {
				t.Errorf("idle: the command fails: %v", err)
			}
		})
	}
}

func TestIdleValue(t *testing.T) {
	for text, want := range map[string]bool{"30m": true, "5s": true, "1s": false, "0": false, "soon": false, "-1h": false} {
		if err := new(idleValue).Set(text); (err == nil) != want {
			t.Errorf("%s: got %v", text, err)
		}
	}
}
