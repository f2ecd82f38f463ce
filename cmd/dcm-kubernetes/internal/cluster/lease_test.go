package cluster_test

import (
	"fmt"
	"testing"

	coordination "k8s.io/api/coordination/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dcm/cmd/dcm-kubernetes/internal/cluster"
)

// The first lease of a pool has the size. Helm keeps the others after the budget was lowered, with the size
// that they had.
func TestViewLeases_Size(t *testing.T) {
	lease := func(name, pool, size, holder string) coordination.Lease {
		l := coordination.Lease{ObjectMeta: meta.ObjectMeta{Name: name, Labels: map[string]string{cluster.Budget: pool}, Annotations: map[string]string{}}}
		if size != "" {
			l.Annotations[cluster.Size] = size
		}
		if holder != "" {
			l.Spec.HolderIdentity = &holder
		}
		return l
	}
	type leases = []coordination.Lease
	for name, tt := range map[string]struct {
		leases leases
		want   string // the size, and whether a node may take a lease
	}{
		"without a size":               {leases{lease("dcm-budget-1", "", "", ""), lease("dcm-budget-2", "", "", "")}, "2 true"},
		"smaller":                      {leases{lease("dcm-budget-2", "", "2", ""), lease("dcm-budget-1", "", "1", "")}, "1 true"},
		"smaller, the first held":      {leases{lease("dcm-budget-1", "", "1", "n2/a"), lease("dcm-budget-2", "", "2", "")}, "1 false"},
		"smaller, the second held":     {leases{lease("dcm-budget-1", "", "1", ""), lease("dcm-budget-2", "", "2", "n2/a")}, "1 false"},
		"larger":                       {leases{lease("dcm-budget-1", "", "2", "n2/a"), lease("dcm-budget-2", "", "2", "")}, "2 true"},
		"by number":                    {leases{lease("dcm-budget-10", "", "9", ""), lease("dcm-budget-2", "", "1", "")}, "1 true"},
		"none":                         {leases{lease("dcm-budget-1", "", "0", "")}, "0 false"},
		"not a number":                 {leases{lease("dcm-budget-1", "", "all", "")}, "0 false"},
		"a size of another pool":       {leases{lease("dcm-budget-1", "", "", ""), lease("dcm-budget-2", "", "", ""), lease("dcm-budget-a-1", "a", "1", "")}, "2 true"},
		"a held lease of another pool": {leases{lease("dcm-budget-1", "", "1", ""), lease("dcm-budget-a-1", "a", "1", "n2/a")}, "1 true"},
	} {
		seen := cluster.ViewLeases(tt.leases)
		if got := fmt.Sprint(seen.Size(""), " ", seen.Open("", "n1") != nil); got != tt.want {
			t.Errorf("%s: size and an open lease are %s, want %s", name, got, tt.want)
		}
	}
}
