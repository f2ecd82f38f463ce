package selection

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/config"
	"dcm/internal/engine/config/configtest"
	"dcm/internal/engine/config/source"
)

type files = configtest.Files

func write(f files, t testing.TB) config.Paths {
	t.Helper()
	return config.DefaultPaths(f.Write(t))
}

func content(t testing.TB, path string) string {
	t.Helper()
	return configtest.Content(t, path)
}

func must(t testing.TB, err error) {
	t.Helper()
	configtest.Must(t, err)
}

// rootOf is the directory that DefaultPaths was given.
func rootOf(p config.Paths) string { return strings.TrimSuffix(p.Cmdline, "/proc/cmdline") }

// Complaint is the text of the error with paths as on a host.
func complaint(t *testing.T, p config.Paths) string {
	t.Helper()
	c, err := config.Load(p)
	if err == nil {
		t.Fatalf("Load accepted it: %+v", c)
	}
	var all *source.Errors
	if !errors.As(err, &all) {
		t.Fatalf("Load returned a %T, not *Errors: %v", err, err)
	}
	return strings.ReplaceAll(err.Error(), rootOf(p), "")
}

func load(t *testing.T, f files) *config.Config {
	t.Helper()
	p := write(f, t)
	c, err := config.Load(p)
	if err != nil {
		t.Fatal(err)
	}
	c.Source = strings.TrimPrefix(c.Source, rootOf(p))
	c.LastingSource = strings.TrimPrefix(c.LastingSource, rootOf(p))
	for name, at := range c.Origin {
		c.Origin[name] = strings.TrimPrefix(at, rootOf(p))
	}
	for i, w := range c.Warnings {
		c.Warnings[i] = strings.ReplaceAll(w, rootOf(p), "")
	}
	return c
}

// same compares what configurations mean, not where it stands.
func same(a, b *config.Config) string {
	x, y := *a, *b
	x.Source, x.LastingSource, x.Origin, x.Warnings = "", "", nil, nil
	y.Source, y.LastingSource, y.Origin, y.Warnings = "", "", nil, nil
	return cmp.Diff(x, y, cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "Reservations.Source" }, cmp.Ignore()))
}
