package bridge_test

import (
	"strings"
	"sync/atomic"
	"testing"
)

// An administrator may remove a right in the middle of a change. The condition names it, and the change goes
// on when it is back.
func TestMissingRight_InCondition(t *testing.T) {
	for name, tt := range map[string]struct{ request, want string }{
		"evictions": {"POST v1/namespaces/default/pods/job-n1/eviction", "cannot evict default/job-n1: "},
		"pods":      {"GET v1/pods", "cannot list the pods of n1: "},
		"Leases":    {"PUT coordination.k8s.io/v1/namespaces/dcm/leases/budget-0", "cannot update the lease budget-0: "},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "n1")
			w.budget(1)
			var granted atomic.Bool
			w.api.Deny = func(request string) bool { return request == tt.request && !granted.Load() }
			w.start("n1")
			w.label("n1", "small")
			w.until("the missing right", func() bool {
				return strings.HasPrefix(w.condition("n1"), "False Forbidden: the agent lacks a right: "+tt.want) && strings.Contains(w.condition("n1"), ". hint: ")
			})
			granted.Store(true)
			w.until("success", func() bool { return w.state("n1") == "success" && w.held() == 0 })
			w.until("the condition", func() bool { return strings.HasPrefix(w.condition("n1"), "True Applied: ") })
		})
	}
}
