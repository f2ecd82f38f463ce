package main

import (
	"bufio"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMessages_BySender(t *testing.T) {
	const heard = `signal time=1.2 sender=:1.0 -> destination=(null destination) serial=1 path=/x; interface=org.freedesktop.DBus.Properties; member=PropertiesChanged
   string "org.freedesktop.systemd1.Unit"
method call time=1.2 sender=:1.7 -> destination=org.freedesktop.DBus serial=1 path=/org/freedesktop/DBus; interface=org.freedesktop.DBus; member=Hello
method call time=1.2 sender=:1.7 -> destination=org.freedesktop.systemd1 serial=2 path=/u; interface=org.freedesktop.DBus.Properties; member=Get
method call time=1.2 sender=:1.7 -> destination=org.freedesktop.systemd1 serial=3 path=/u; interface=org.freedesktop.DBus.Properties; member=Get
signal time=1.2 sender=:1.7 -> destination=(null destination) serial=4 path=/m; interface=org.freedesktop.DBus.Properties; member=PropertiesChanged
method call time=1.2 sender=:1.8 -> destination=org.freedesktop.DBus serial=1 path=/org/freedesktop/DBus; interface=org.freedesktop.DBus; member=Hello
signal time=1.2 sender=:1.8 -> destination=(null destination) serial=2 path=/; interface=org.deviceconfig.Bench; member=End
`
	got, err := tally(bufio.NewScanner(strings.NewReader(heard)))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"method call Hello": 1, "method call Get": 2, "signal PropertiesChanged": 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	if _, err := tally(bufio.NewScanner(strings.NewReader(""))); err == nil {
		t.Error("no error for a bus that ended first")
	}
}
