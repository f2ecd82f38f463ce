package bridge_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"dcm/cmd/dcm-kubernetes/internal/cluster"
	"dcm/cmd/dcm-kubernetes/internal/standin"
)

// In a large budget the holders change often, and many nodes wait. The condition is not written for
// each change of the holders.
func TestWaitingForBudget_LimitsMessages(t *testing.T) {
	w := newWorld(t, "n1")
	w.budget(2)
	w.times.Budget = time.Hour
	w.holders("n2/a", "n3/b")
	w.start("n1")
	w.label("n1", "small")
	w.until("the holders", func() bool { return strings.Contains(w.condition("n1"), "are held (by n2, n3)") })
	w.holders("n2/a", "n4/c")
	before := w.count("GET " + leases[:len(leases)-1])
	touch := 0
	w.until("another look", func() bool {
		touch++
		w.annotate("n1", "touched", fmt.Sprint(touch))
		return w.count("GET "+leases[:len(leases)-1]) >= before+2
	})
	if got := w.condition("n1"); !strings.Contains(got, "(by n2, n3)") {
		t.Errorf("the condition is %q", got)
	}
}

func TestBudget_LimitsConcurrentChanges(t *testing.T) {
	w := newWorld(t, "n1", "n2", "n3")
	w.budget(1)
	var at, most atomic.Int32
	for _, dcm := range w.dcm {
		dcm.Run = func() {
			if n := at.Add(1); n > most.Load() {
				most.Store(n)
			}
			<-time.After(20 * time.Millisecond)
			at.Add(-1)
		}
	}
	for name := range w.dcm {
		w.start(name)
		w.label(name, "small")
	}
	w.until("success", func() bool {
		return w.state("n1") == "success" && w.state("n2") == "success" && w.state("n3") == "success" && w.held() == 0
	})
	if most.Load() != 1 {
		t.Errorf("%d concurrently", most.Load())
	}
}

// A node uses only the Leases of its pool.
func TestBudget_OfPools(t *testing.T) {
	w := newWorld(t, "n1", "n2", "n3", "n4")
	w.budget(2)
	w.pool("Lease", leases+"budget-0", "a")
	w.pool("Lease", leases+"budget-1", "b")
	for name, pool := range map[string]string{"n1": "a", "n2": "a", "n3": "b"} {
		w.pool("Node", nodes+name, pool)
	}
	begun, end := make(chan struct{}), make(chan struct{})
	w.dcm["n1"].Run = func() { close(begun); <-end }
	for name := range w.dcm {
		w.start(name)
	}
	w.label("n1", "small")
	<-begun
	for _, name := range []string{"n2", "n3", "n4"} {
		w.label(name, "small")
	}
	w.until("success in the other pool", func() bool { return w.state("n3") == "success" })
	w.until("the holder of the pool", func() bool {
		return strings.Contains(w.condition("n2"), "all 1 Leases of the budget pool a are held (by n1)")
	})
	w.until("no Lease without a pool", func() bool {
		return strings.Contains(w.condition("n4"), "no Lease has the label deviceconfig.org/budget with an empty value")
	})
	close(end)
	w.until("success", func() bool { return w.state("n1") == "success" && w.state("n2") == "success" && w.held() == 0 })
}

func TestLease_OfRemovedNodeTaken(t *testing.T) {
	w := newWorld(t, "n1")
	w.budget(1)
	w.api.Do(func(tree standin.Tree) {
		l := tree.Get(leases + "budget-0")
		standin.Sub(l, "spec")["holderIdentity"] = "gone/op"
		tree.Put(leases+"budget-0", l)
	})
	w.start("n1")
	w.label("n1", "small")
	w.until("success", func() bool { return w.state("n1") == "success" && w.held() == 0 })
}

// A holder renews its Lease, so that other nodes see that it has not expired.
func TestLease_RenewedDuringChange(t *testing.T) {
	w := newWorld(t, "n1")
	w.budget(1)
	w.times.Lease = 30 * time.Millisecond
	var blocked atomic.Bool
	blocked.Store(true)
	w.api.Evict = func(string) (int, string) {
		if blocked.Load() {
			return 429, standin.Budget
		}
		return 0, ""
	}
	w.start("n1")
	w.label("n1", "small")
	renewed := make(map[any]bool)
	w.until("renewals", func() bool {
		spec := standin.Sub(w.api.Get(leases+"budget-0"), "spec")
		if spec["holderIdentity"] != nil {
			renewed[spec["renewTime"]] = true
		}
		return len(renewed) >= 4 && spec["leaseDurationSeconds"] == 1.0
	})
	blocked.Store(false)
	w.config(text + " ") // ends the pause after the refused eviction
	w.until("a lease that is free", func() bool { return w.held() == 0 })
	if got := standin.Sub(w.api.Get(leases+"budget-0"), "spec"); len(got) > 0 {
		t.Errorf("a free lease has %v", got)
	}
}

// The operation is over, but its Lease may still be renewed. A Lease is taken only if this agent saw
// no renewal for its duration. The holder's clock is ahead.
func TestLease_TakenAfterItsDuration(t *testing.T) {
	w := newWorld(t, "n1")
	w.budget(1)
	ahead := time.Now().Add(time.Hour)
	w.api.Do(func(tree standin.Tree) {
		l := tree.Get(leases + "budget-0")
		l["spec"] = standin.Object{"holderIdentity": "gone/op", "leaseDurationSeconds": 1, "renewTime": ahead.UTC().Format("2006-01-02T15:04:05.000000Z")}
		tree.Put(leases+"budget-0", l)
	})
	var taken atomic.Pointer[standin.Object]
	begun := time.Now()
	w.api.Meet = func(request string, after bool) bool {
		if after && request == "PUT "+leases+"budget-0" {
			o := w.api.Get(leases + "budget-0")
			taken.CompareAndSwap(nil, &o)
		}
		return false
	}
	w.start("n1")
	w.label("n1", "small")
	w.until("success", func() bool { return w.state("n1") == "success" && w.held() == 0 })
	if took := time.Since(begun); took < time.Second {
		t.Errorf("the lease was taken after %s", took)
	}
	renewed, err := time.Parse(time.RFC3339, fmt.Sprint(standin.Sub(*taken.Load(), "spec")["renewTime"]))
	if err != nil || renewed.Before(ahead.Add(time.Second).Truncate(time.Microsecond)) {
		t.Errorf("renewed at %s, before the lease had expired, %s; %v", renewed, ahead.Add(time.Second), err)
	}
}

// After the budget was lowered, the lease of a node that is gone does not stop the others.
func TestBudget_Lowered(t *testing.T) {
	w := newWorld(t, "n1")
	w.times.Lease = 5 * time.Millisecond
	w.budget(2)
	w.api.Do(func(tree standin.Tree) {
		for i, who := range []any{nil, "gone/x"} {
			l := tree.Get(fmt.Sprintf("%sbudget-%d", leases, i))
			standin.Sub(l, "metadata", "annotations")[cluster.Size] = fmt.Sprint(i + 1)
			if who != nil {
				standin.Sub(l, "spec")["holderIdentity"], standin.Sub(l, "spec")["leaseDurationSeconds"] = who, 1
			}
			tree.Put(fmt.Sprintf("%sbudget-%d", leases, i), l)
		}
	})
	w.start("n1")
	w.label("n1", "small")
	w.until("the holder", func() bool {
		return strings.Contains(w.condition("n1"), "all 1 Leases of the budget are held (by gone)")
	})
	w.until("success", func() bool { return w.state("n1") == "success" && w.held() == 1 })
}
