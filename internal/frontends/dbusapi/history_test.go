package dbusapi

import (
	"errors"
	"testing"

	"github.com/godbus/dbus/v5"
)

func TestHistory_AnyUser(t *testing.T) {
	b := startBus(t)
	d := &desk{}
	b.serve(d, 1000)
	b.owned()
	object := b.connect().Object(Name, Path)
	var runs string
	if err := object.Call(Interface+".History", 0).Store(&runs); err != nil || runs != "[]" {
		t.Errorf("history: got %q, %v", runs, err)
	}
	d.answer("", errors.New("cannot read the history of runs: a disk error"))
	err := object.Call(Interface+".History", 0).Store(&runs)
	var failed dbus.Error
	if !errors.As(err, &failed) || failed.Name != errorFailed {
		t.Errorf("history that cannot be read: got %v", err)
	}
}
