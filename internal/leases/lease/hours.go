package lease

import (
	"fmt"
	"time"

	"dcm/internal/engine/hours"
	"dcm/internal/gpu/partition"
)

// Hours keeps GPUs for the leases of one user at some times. A lease of another user does not start there
// unless its time limit ends it before.
type Hours struct {
	User string // for texts
	UID  uint32
	GPUs []partition.Address
	When hours.Hours
}

// NoUser is the UID of [Hours] whose user does not exist. No user has it.
const NoUser = ^uint32(0)

// hoursFormat is the form of a time in texts.
const hoursFormat = "Mon 15:04"

// refuses returns why a lease of a user from one time to another cannot be on the GPUs, "" if it can. A zero
// end is never.
func (h Hours) refuses(uid uint32, from, to time.Time) string {
	if uid == h.UID {
		return ""
	}
	switch now, in := h.When.At(from); {
	case in && now.End.IsZero():
		return "the reservation of " + h.User
	case in:
		return fmt.Sprintf("the reservation of %s until %s", h.User, now.End.Format(hoursFormat))
	}
	if next, ok := h.When.Next(from); ok && (to.IsZero() || to.After(next.Begin)) {
		return fmt.Sprintf("the reservation of %s from %s (only a lease with a time limit that ends before can start)", h.User, next.Begin.Format(hoursFormat))
	}
	return ""
}

// end returns when a lease ends that begins at a time, zero for never.
func end(begin time.Time, limit time.Duration) time.Time {
	if limit == 0 {
		return time.Time{}
	}
	return begin.Add(limit)
}

// weekInterval is the time after which [Hours] repeat.
const weekInterval = 7 * 24 * time.Hour

// excludes returns why no lease of a user with a time limit can ever be on the GPUs, "" if one can: now, or when
// a period of the coming week has ended.
func (h Hours) excludes(uid uint32, now time.Time, limit time.Duration) string {
	why := h.refuses(uid, now, end(now, limit))
	for at := now; why != "" && at.Sub(now) <= weekInterval; {
		p, ok := h.When.At(at)
		if !ok {
			p, ok = h.When.Next(at)
		}
		if !ok || p.End.IsZero() {
			break
		}
		if at = p.End; h.refuses(uid, at, end(at, limit)) == "" {
			return ""
		}
	}
	return why
}

// changes returns the end of the present period and the begin of the next one.
func changes(h hours.Hours, now time.Time) []time.Time {
	var out []time.Time
	if p, ok := h.At(now); ok && !p.End.IsZero() {
		out = append(out, p.End)
	}
	if p, ok := h.Next(now); ok {
		out = append(out, p.Begin)
	}
	return out
}
