package service

import (
	"errors"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dcm/internal/linux/systemd"
)

func TestReadWithin_FallsBackToLastGood(t *testing.T) {
	order := func(unit string) func() (systemd.Order, error) {
		return func() (systemd.Order, error) { return systemd.Order{Clients: []string{unit}}, nil }
	}
	for _, tt := range []struct {
		name    string
		hangs   bool
		last    func() (systemd.Order, error)
		clients []string
		err     string
		took    time.Duration
	}{
		{name: "read", last: order("old.service"), clients: []string{"new.service"}},
		{name: "hung", hangs: true, last: order("old.service"), clients: []string{"old.service"}, took: readTimeout},
		{name: "hung at boot", hangs: true, last: func() (systemd.Order, error) { return systemd.Order{}, fs.ErrNotExist }, err: "cannot read the last good configuration: file does not exist", took: readTimeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var logged []string
				log := func(_ slog.Level, text string) { logged = append(logged, text) }
				hung := make(chan struct{})
				read := order("new.service")
				if tt.hangs {
					read = func() (systemd.Order, error) { <-hung; return systemd.Order{}, errors.New("too late") }
				}
				began := time.Now()
				o, err := readWithin(readTimeout, log, read, tt.last)
				if !slices.Equal(o.Clients, tt.clients) || (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
					t.Errorf("got %q, %v, want %q, %q", o.Clients, err, tt.clients, tt.err)
				}
				if took := time.Since(began); took != tt.took {
					t.Errorf("took %s, want %s", took, tt.took)
				}
				if said := strings.Contains(strings.Join(logged, ""), "not read within 20s"); said != tt.hangs {
					t.Errorf("logged %q", logged)
				}
				close(hung)
			})
		})
	}
}
