package e2e_test

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// turns limits the number of concurrent containers. Of the waiting tests the longest one
// starts first: started last, it would run alone at the end.
type turns struct {
	mu      sync.Mutex
	free    int
	waiting []turn
}

type turn struct {
	length int // approximate, in seconds
	come   chan struct{}
}

// There are more containers than processors: a container mostly waits for a boot, a hang or
// a retry.
var containerTurns = &turns{free: 2 * runtime.GOMAXPROCS(0)}

// wait returns when the test may start its container. The turn ends with the test.
func (q *turns) wait(t *testing.T, length int) {
	t.Helper()
	now := turn{length, make(chan struct{})}
	q.change(func() { q.waiting = append(q.waiting, now) })
	t.Cleanup(func() { q.change(func() { q.free++ }) })
	<-now.come
}

func (q *turns) change(act func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	act()
	slices.SortStableFunc(q.waiting, func(a, b turn) int { return cmp.Compare(b.length, a.length) })
	for ; q.free > 0 && len(q.waiting) > 0; q.free-- {
		close(q.waiting[0].come)
		q.waiting = q.waiting[1:]
	}
}

func TestTurns_LongestFirst(t *testing.T) {
	q := &turns{}
	var order []string
	t.Run("all", func(t *testing.T) {
		for _, length := range []int{20, 300, 0, 20} {
			t.Run(fmt.Sprint(length), func(t *testing.T) {
				t.Parallel()
				q.wait(t, length)
				order = append(order, fmt.Sprint(length)) // written by one goroutine at a time, since there is one turn
			})
		}
		t.Run("the turn", func(t *testing.T) {
			t.Parallel()
			all := func() (all bool) {
				q.change(func() { all = len(q.waiting) == 4 })
				return all
			}
			for !all() {
				runtime.Gosched()
			}
			q.change(func() { q.free++ })
		})
	})
	if got := strings.Join(order, " "); got != "300 20 20 0" {
		t.Errorf("order of the turns: want 300 20 20 0, got %s", got)
	}
}
