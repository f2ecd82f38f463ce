package reservations

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"dcm/internal/app/leaseservice"
	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/lease"
	"dcm/internal/leases/placement"
	"dcm/internal/testkit/testdeadline"
)

// weighed is a node of eight partitions. The last ones are in leases.
func weighed(leased int, list []config.Reservation, last ...runstate.Reservation) choice {
	c := choice{list: list, last: &runstate.Partitions{Reservations: last}, now: make(map[string][]string)}
	for i := range 8 {
		c.last.Parts = append(c.last.Parts, runstate.Part{Name: fmt.Sprintf("0000:05:00.0-%d", i), GPU: "0000:05:00.0", Index: i, Render: fmt.Sprintf("/dev/dri/renderD%d", 128+i)})
		if i >= 8-leased {
			c.leasedNodes = append(c.leasedNodes, c.last.Parts[i].Render)
		}
	}
	asks := make(map[string]string)
	for _, r := range last {
		asks[r.Name] = r.Asks
		for _, name := range r.Partitions {
			c.now[r.Name] = append(c.now[r.Name], "/dev/dri/renderD"+fmt.Sprint(128+int(name[len(name)-1]-'0')))
		}
	}
	for _, r := range list {
		c.wants = append(c.wants, lease.Reservation{Name: r.Name, Want: placement.Want{Partitions: r.Partitions, Among: []partition.Address{"0000:05:00.0"}}})
		c.changed = c.changed || asks[r.Name] != r.Asks()
	}
	if leased > 0 {
		c.leaseHolders = []runstate.Holder{{PID: 7, Unit: "dcm-lease-1000-4f1c09aa.scope", Lessee: "ada"}}
	}
	return c
}

func TestEvaluate(t *testing.T) {
	one := func(name string, n int) config.Reservation {
		return config.Reservation{Name: name, Unit: name + ".service", Partitions: n, Source: "dcm.toml:" + fmt.Sprint(n)}
	}
	had := func(r config.Reservation, partitions ...int) runstate.Reservation {
		out := runstate.Reservation{Name: r.Name, Unit: r.Unit, Wants: r.Partitions, Asks: r.Asks()}
		for _, p := range partitions {
			out.Partitions = append(out.Partitions, fmt.Sprintf("0000:05:00.0-%d", p))
		}
		return out
	}
	for _, tt := range []struct {
		name   string
		leased int
		list   []config.Reservation
		last   []runstate.Reservation
		due    bool
		text   string
		waits  bool
	}{
		{"a new one", 2, []config.Reservation{one("a", 6)}, nil, true, "", false},
		{"a new one for which leases leave too few", 3, []config.Reservation{one("a", 6)}, nil, false,
			"dcm.toml:6: reservation a cannot be met: 6 partitions reserved (a 6), and there are 5; leases have the others: dcm-lease-1000-4f1c09aa.scope of ada", true},
		{"more than there is at all", 3, []config.Reservation{one("a", 9)}, nil, false, "dcm.toml:9: reservation a cannot be met: 9 partitions reserved (a 9), and there are 5", false},
		{"one wants more than leases leave, and keeps what it has", 3, []config.Reservation{one("a", 6)}, []runstate.Reservation{had(one("a", 1), 0)}, false, "dcm.toml:6: reservation a cannot be met", true},
		{"one is changed, and another has had none before", 0, []config.Reservation{one("b", 3), one("a", 7)}, []runstate.Reservation{had(one("a", 7)), had(one("b", 1), 0)}, true, "", false},
		{"one would take another's", 0, []config.Reservation{one("b", 3), one("a", 6)}, []runstate.Reservation{had(one("a", 6), 0, 1, 2, 3, 4, 5), had(one("b", 1), 6)}, false, "dcm.toml:6: reservation a cannot be met: 9 partitions reserved (b 3, a 6), and there are 8", false},
		{"one has none, and could have some now", 0, []config.Reservation{one("a", 6)}, []runstate.Reservation{had(one("a", 6))}, true, "", false},
		{"one has none, and leases have what it wants", 3, []config.Reservation{one("a", 6)}, []runstate.Reservation{had(one("a", 6))}, false, "reservation a cannot be met: 6 partitions reserved (a 6), and there are 5; leases", true},
		{"one has none, and there is too little", 0, []config.Reservation{one("a", 9)}, []runstate.Reservation{had(one("a", 9))}, false, "", false},
		{"one has none, and could have what another has", 0, []config.Reservation{one("b", 6), one("a", 4)}, []runstate.Reservation{had(one("b", 6)), had(one("a", 4), 0, 1, 2, 3)}, false, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := weighed(tt.leased, tt.list, tt.last...)
			is, err := c.evaluate()
			text, waits := "", false
			if e, ok := err.(*UnsatisfiableError); ok {
				text, waits = e.Error(), len(e.Holders()) > 0
			}
			if is != tt.due || !strings.Contains(text, tt.text) || (text == "") != (tt.text == "") || waits != tt.waits {
				t.Errorf("due is %t, %q, waits %t; want %t, %q, %t", is, text, waits, tt.due, tt.text, tt.waits)
			}
		})
	}
}

func TestStale_Kind(t *testing.T) {
	h := &host.Host{Root: t.TempDir()}
	asks := config.Reservation{Name: "a", Partitions: 1, Source: "dcm.toml:3", Sought: partition.Criteria{Mode: "CPX"}}
	for _, c := range []struct {
		kind string
		list config.Reservation
		text string
	}{
		{"amd CPX/NPS4", asks, ""},
		{"amd SPX/NPS1", asks, "dcm.toml:3: reservation a cannot be met"},
		{"amd CPX/NPS4", config.Reservation{Name: "a", Partitions: 2, Source: "dcm.toml:3"}, "dcm.toml:3: reservation a cannot be met"},
	} {
		listed(t, h, c.kind, runstate.Partitions{})
		is, err := Stale(t.Context(), h, []config.Reservation{c.list}, true, slog.New(slog.DiscardHandler))
		if text := fmt.Sprint(err); is != (c.text == "") || err != nil && (c.text == "" || !strings.Contains(text, c.text)) {
			t.Errorf("with a partition of kind %q %s is due: %t, %v", c.kind, c.list.Asks(), is, err)
		}
	}
}

// lingering is a lease with partitions and without processes. EndEmptyScopes ends it.
type lingering struct {
	leased []string
	ended  chan struct{} // nil: nothing ends it
}

func (e *lingering) ActiveLeases(context.Context) (leaseservice.Active, error) {
	return leaseservice.Active{Nodes: e.leased, Changed: e.ended}, nil
}

func (e *lingering) EndEmptyScopes(context.Context) {
	if e.ended != nil && e.leased != nil {
		e.leased = nil
		close(e.ended)
	}
}

func TestAwaitEmptyLeases_EndsEmptyScopes(t *testing.T) {
	c := weighed(3, []config.Reservation{{Name: "a", Partitions: 6, Source: "dcm.toml:6"}})
	ctx, cancel := testdeadline.Context(t.Context(), 10*time.Second)
	defer cancel()
	if is, err := c.awaitEmptyLeases(ctx, &lingering{c.leasedNodes, make(chan struct{})}); !is || err != nil {
		t.Errorf("with an empty lease: got %t, %v, want true", is, err)
	}
}

// The timeout is not reported as an unsatisfiable choice.
func TestStale_ReportsUnmet(t *testing.T) {
	c := weighed(3, []config.Reservation{{Name: "a", Partitions: 6, Source: "dcm.toml:6"}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	is, err := c.awaitEmptyLeases(ctx, &lingering{c.leasedNodes, nil})
	const want = "dcm.toml:6: reservation a cannot be met: 6 partitions reserved (a 6), and there are 5; leases without processes have the others, and do not end: context canceled"
	if is || err == nil || err.Error() != want {
		t.Errorf("it is due: %t, %v; want %s", is, err, want)
	}
	if _, final := err.(*UnsatisfiableError); final {
		t.Error("it is not tried again")
	}
}

func TestRoomToChoose(t *testing.T) {
	if err := checkSpace(t.TempDir()); err != nil {
		t.Error(err)
	}
	if err := checkSpace("/proc"); err == nil || !strings.Contains(err.Error(), "/proc: no space left (found 0 KiB, want 512 KiB)") {
		t.Errorf("on a file system without free blocks: %v", err)
	}
}
