package systemd

import (
	"context"
	"time"
)

// StartedAndFailed returns the failed services that were started in a period, in the order of their names.
func (u Units) StartedAndFailed(ctx context.Context, from, to time.Time) ([]string, error) {
	list, err := u.t.matching(ctx, []string{"failed"}, "*.service")
	if err != nil {
		return nil, err
	}
	uptime, err := sinceBoot()
	if err != nil {
		return nil, err
	}
	boot := time.Now().Add(-uptime)
	starts := make([]uint64, len(list))
	err = each(len(list), func(i int) error {
		return u.t.property(ctx, list[i].unit.ID, unitInterface, startedAt, &starts[i])
	})
	var out []string
	for i, l := range list {
		start := boot.Add(time.Duration(starts[i]) * time.Microsecond)
		if starts[i] > 0 && !start.Before(from) && !start.After(to) {
			out = append(out, l.unit.ID)
		}
	}
	return out, err
}
