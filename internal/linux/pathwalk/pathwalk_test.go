package pathwalk

import (
	"errors"
	"strings"
	"syscall"
	"testing"
)

func TestWalk(t *testing.T) {
	links := map[string]string{"/etc/a": "../srv//b/", "/srv/b": "/opt", "/loop": "loop"}
	for path, want := range map[string]string{
		"/etc/x": "/etc/x", "/etc/a/c": "/opt/c", "/etc/./../srv": "/srv", "/": "/", "/loop": "",
	} {
		w := New("/", path)
		var err error
		for len(w.Rest) > 0 && err == nil {
			next := w.Next()
			if target, ok := links[next]; ok {
				err = w.Follow(target)
			} else {
				w.Dir = next
			}
		}
		if errors.Is(err, syscall.ELOOP) != strings.Contains(path, "loop") || err == nil && w.Dir != want {
			t.Errorf("%s: %s, %v, want %s", path, w.Dir, err, want)
		}
	}
}
