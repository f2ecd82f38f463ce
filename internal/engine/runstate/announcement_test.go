package runstate

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTakeUp(t *testing.T) {
	rolling := &Selection{Profile: "b", Rolling: true}
	plain := &Selection{Profile: "b"}
	other := &Selection{Profile: "c", IgnoreBudget: true}
	by := func(s *Selection, requested bool) Announcement {
		return Announcement{Selection: s, Requested: requested}
	}
	for _, tt := range []struct {
		name    string
		before  *Selection
		list    []Announcement
		profile string
		want    Selection
		left    []Announcement
	}{
		{"the first configuration", nil, nil, "a", Selection{Profile: "a"}, nil},
		{"a restart, reload, or edit without effect on it", rolling, nil, "b", *rolling, nil},
		{"an edit by hand", rolling, nil, "a", Selection{Profile: "a"}, nil},
		{"a command", plain, []Announcement{by(rolling, false)}, "b", *rolling, []Announcement{by(nil, false)}},
		{"a command that has called the daemon", plain, []Announcement{by(rolling, true)}, "b", *rolling, nil},
		{"the last of two commands", nil, []Announcement{by(rolling, true), by(plain, true)}, "b", *plain, nil},
		{"a command that has not selected yet", rolling, []Announcement{by(other, false)}, "b", *rolling, []Announcement{by(other, false)}},
		{"a command that was overtaken", rolling, []Announcement{by(other, true)}, "b", *rolling, nil},
		{"a request without a selection", rolling, []Announcement{by(nil, false)}, "b", *rolling, []Announcement{by(nil, false)}},
		{"no profile", rolling, []Announcement{by(&Selection{}, true)}, "", Selection{}, nil},
	} {
		now, left := TakeUp(tt.before, tt.list, tt.profile)
		if diff := cmp.Diff(tt.want, *now); diff != "" {
			t.Errorf("%s: in effect (-want +got):\n%s", tt.name, diff)
		}
		if diff := cmp.Diff(tt.left, left); diff != "" {
			t.Errorf("%s: left (-want +got):\n%s", tt.name, diff)
		}
	}
}

// A pass may wait for minutes: its time does not count.
func TestOlder_CountsIdleTime(t *testing.T) {
	noted := time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)
	list := []Announcement{{Time: noted, Asked: Asked{Why: "dcm apply b --rolling"}}}
	for _, idle := range []struct {
		from, until time.Duration
		left        int
	}{{-time.Hour, 30 * time.Second, 1}, {10 * time.Minute, 10*time.Minute + 29*time.Second, 1}, {20 * time.Minute, 20*time.Minute + 2*time.Second, 0}} {
		list = Older(list, noted.Add(idle.until), noted.Add(idle.from))
		if len(list) != idle.left {
			t.Errorf("idle until %s: %d announcements left, want %d", idle.until, len(list), idle.left)
		}
	}
}
