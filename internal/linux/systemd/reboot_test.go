package systemd

import (
	"errors"
	"testing"

	"github.com/godbus/dbus/v5"
)

func TestReboot_Errors(t *testing.T) {
	for name, tt := range map[string]struct {
		answer  func(*dbus.Conn) *dbus.Error
		ok, not bool
	}{
		"done": {func(*dbus.Conn) *dbus.Error { return nil }, true, false},
		"refused": {func(*dbus.Conn) *dbus.Error {
			return dbus.NewError("org.freedesktop.login1.BlockedByInhibitorLock", nil)
		}, false, true},
		"logind exits during the call": {func(c *dbus.Conn) *dbus.Error {
			c.Close()
			return nil
		}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			bus := startBus(t)
			if err := RebootAt(t.Context(), bus); !errors.Is(err, ErrNoReboot) {
				t.Errorf("without logind: %v", err)
			}
			conn, err := dbus.Connect(bus)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			login := map[string]any{"Reboot": func(interactive bool) *dbus.Error {
				if interactive {
					t.Error("the call permits interactive authorisation, want none")
				}
				return tt.answer(conn)
			}}
			if err := conn.ExportMethodTable(login, "/org/freedesktop/login1", "org.freedesktop.login1.Manager"); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.RequestName("org.freedesktop.login1", 0); err != nil {
				t.Fatal(err)
			}
			err = RebootAt(t.Context(), bus)
			if (err == nil) != tt.ok || errors.Is(err, ErrNoReboot) != tt.not {
				t.Errorf("got %v", err)
			}
		})
	}
	if err := RebootAt(t.Context(), "unix:path=/nonexistent"); !errors.Is(err, ErrNoReboot) {
		t.Errorf("without a bus: %v", err)
	}
}
