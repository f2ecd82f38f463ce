package lease

import (
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dcm/internal/engine/hours"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/unitname"
)

// TestMain sets the time zone, since [Hours] are in that of the host.
func TestMain(m *testing.M) {
	time.Local = time.UTC
	os.Exit(m.Run())
}

// bob is another user than alice.
func bob() Caller { return Caller{UID: 1001, PID: 2} }

// forAlice keeps the first GPU for alice at these hours.
func forAlice(t *testing.T, when string) Hours {
	h := Hours{User: "alice", UID: alice.UID, GPUs: []partition.Address{"0000:05:00.0"}}
	if when == "" {
		return h
	}
	var ok bool
	if h.When, ok = hours.Parse(when); !ok {
		t.Fatalf("hours %q are not valid", when)
	}
	return h
}

// synctest begins at midnight of a Saturday in UTC.
func TestAcquire_Hours(t *testing.T) {
	root := Caller{UID: 0, PID: 3}
	for name, tt := range map[string]struct {
		when       string
		caller     Caller
		partitions int
		time       time.Duration
		want       string // "" if it gets its lease
		never      bool
	}{
		"the user":                         {"Sat", alice, 8, 0, "", false},
		"another one, the other GPU":       {"Sat", bob(), 4, 0, "", false},
		"another one, both":                {"Sat", bob(), 5, time.Hour, "the others have the reservation of alice until Sun 00:00", false},
		"root, both":                       {"Sat", root, 5, time.Hour, "the reservation of alice until Sun 00:00", false},
		"without a limit, before":          {"Sat 08:00..10:00", bob(), 8, 0, "the reservation of alice from Sat 08:00", true},
		"a limit that ends before":         {"Sat 08:00..10:00", bob(), 8, 8 * time.Hour, "", false},
		"a limit that ends later":          {"Sat 08:00..10:00", bob(), 8, 8*time.Hour + time.Second, "from Sat 08:00", false},
		"always":                           {"", bob(), 8, 0, "at most 4 of 8 can be leased; a GPU has the reservation of alice", true},
		"longer than each gap":             {"12:00..13:00", bob(), 8, 24 * time.Hour, "from Sat 12:00", true},
		"always, but for the user":         {"", alice, 8, 0, "", false},
		"always, the other GPU is enough":  {"", bob(), 4, 0, "", false},
		"over midnight":                    {"22:00..06:00", bob(), 5, time.Hour, "until Sat 06:00", false},
		"not on this day of the week":      {"Mon", bob(), 8, 40 * time.Hour, "", false},
		"until the begin of the next week": {"Mon", bob(), 8, 49 * time.Hour, "from Mon 00:00", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHost()
				h.hours = []Hours{forAlice(t, tt.when)}
				a := newAllocator(h)
				r := Request{Kind: unitname.ConfinedLease, Time: tt.time}
				r.Partitions = tt.partitions
				_, err := a.Acquire(t.Context(), tt.caller, r)
				if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
					t.Fatalf("got %v, want %q", err, tt.want)
				}
				if _, never := errors.AsType[*ImpossibleError](err); never != tt.never {
					t.Errorf("%v: impossible %t, want %t", err, never, tt.never)
				}
			})
		})
	}
}

// A request that waits gets its lease when the hours of another user end.
func TestAcquire_WaitsForHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost()
		h.hours = []Hours{forAlice(t, "Sat 00:00..01:30")}
		a := newAllocator(h)
		r := Request{Kind: unitname.ConfinedLease, Wait: true, Time: time.Hour}
		r.Partitions = 8
		begun := time.Now()
		if _, err := a.Acquire(t.Context(), bob(), r); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(begun); waited != 90*time.Minute {
			t.Errorf("waited %s, want until 01:30", waited)
		}
	})
}

// A lease is not extended into the hours of another user.
func TestExtend_Hours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost()
		h.hours = []Hours{forAlice(t, "Sat 08:00..10:00")}
		a := newAllocator(h)
		a.Limit(Limits{Hours: true})
		r := Request{Kind: unitname.ConfinedLease, Time: time.Hour}
		r.Partitions = 8
		l, err := a.Acquire(t.Context(), bob(), r)
		if err != nil {
			t.Fatal(err)
		}
		h.terms = map[string]Term{l.Unit: {time.Now(), time.Hour}}
		if err := a.Extend(t.Context(), bob(), l.Unit, 9*time.Hour); err == nil || !strings.Contains(err.Error(), "the reservation of alice from Sat 08:00") {
			t.Errorf("into the hours: got %v", err)
		}
		if err := a.Extend(t.Context(), bob(), l.Unit, 8*time.Hour); err != nil {
			t.Errorf("until their begin: %v", err)
		}
		if err := a.Extend(t.Context(), Caller{}, l.Unit, 9*time.Hour); err != nil {
			t.Errorf("root: %v", err)
		}
	})
}

// While a request waits for the end of the hours, those that end before are not delayed.
func TestHours_Overtaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost()
		h.hours = []Hours{forAlice(t, "Sat 00:00..02:00")}
		a := newAllocator(h)
		waits := Request{Kind: unitname.ConfinedLease, Wait: true, Time: 5 * time.Hour}
		waits.Partitions = 8
		go func() { _, _ = a.Acquire(t.Context(), bob(), waits) }()
		synctest.Wait()
		short := Request{Kind: unitname.ConfinedLease, Time: time.Hour}
		short.Partitions = 1
		carol := Caller{UID: 1002, PID: 3}
		if _, err := a.Acquire(t.Context(), carol, short); err != nil {
			t.Errorf("a lease that ends before: %v", err)
		}
		short.Time = 3 * time.Hour
		if _, err := a.Acquire(t.Context(), carol, short); err == nil || !strings.Contains(err.Error(), "an earlier request in the queue would start later") {
			t.Errorf("a lease that ends later: got %v", err)
		}
		if q := a.Queue(); len(q) != 1 || !strings.Contains(q[0].Reason, "some have the reservation of alice until Sat 02:00") {
			t.Errorf("queue: %+v", q)
		}
		snapshot, _ := h.Snapshot(t.Context())
		for _, part := range Allocations(snapshot.WithHours()) {
			if first := part.GPU == "0000:05:00.0"; first != (part.For == "alice") {
				t.Errorf("%s: shown as reserved for %q", part.Name, part.For)
			}
		}
		time.Sleep(2 * time.Hour) // of virtual time
	})
}
