package lease

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"dcm/internal/gpu/partition"
)

// now returns the time of the snapshot.
func (s Snapshot) now() time.Time {
	if s.At.IsZero() {
		return time.Now()
	}
	return s.At
}

// seenBy returns the snapshot in which the GPUs are closed that [Hours] keep from a lease of the request.
func (s Snapshot) seenBy(c Caller, r Request) Snapshot {
	if len(s.Hours) == 0 {
		return s
	}
	s.closed = make(map[partition.Address]string)
	now := s.now()
	for _, h := range s.Hours {
		if why := h.refuses(c.UID, now, end(now, r.Time)); why != "" {
			for _, gpu := range h.GPUs {
				s.closed[gpu] = why
			}
		}
	}
	return s
}

// excluding returns the [Hours] that always keep a lease of the request from their GPUs.
func (s Snapshot) excluding(c Caller, r Request) []Hours {
	return slices.DeleteFunc(slices.Clone(s.Hours), func(h Hours) bool { return h.excludes(c.UID, s.now(), r.Time) == "" })
}

// closedBy returns those of the holders that are [Hours].
func (s Snapshot) closedBy(holders []string) []string {
	hours := slices.Collect(maps.Values(s.closed))
	return slices.DeleteFunc(slices.Clone(holders), func(holder string) bool { return !slices.Contains(hours, holder) })
}

// WithHours returns the snapshot in which partitions of present [Hours] are reserved for their user. It is for
// displays.
func (s Snapshot) WithHours() Snapshot {
	if len(s.Hours) == 0 {
		return s
	}
	reserved := make(map[string]string)
	maps.Copy(reserved, s.Reserved)
	s.Reserved = reserved
	for _, h := range s.Hours {
		if _, now := h.When.At(s.now()); !now {
			continue
		}
		for _, p := range s.Parts {
			if slices.Contains(h.GPUs, p.GPU) && s.Reserved[p.Name] == "" {
				s.Reserved[p.Name] = h.User
			}
		}
	}
	return s
}

// hoursEnd returns the next time at which [Hours] begin or end, zero for none.
func (s Snapshot) hoursEnd() time.Time {
	var first time.Time
	now := s.now()
	for _, h := range s.Hours {
		for _, t := range changes(h.When, now) {
			if first.IsZero() || t.Before(first) {
				first = t
			}
		}
	}
	return first
}

// extendible returns an error if a lease of a user that ends later would be on GPUs of others' [Hours].
func (s Snapshot) extendible(unit string, uid uint32, term Term, limit time.Duration) error {
	for _, held := range Allocations(s) {
		if !slices.Contains(held.Units, unit) {
			continue
		}
		for _, h := range s.Hours {
			if !slices.Contains(h.GPUs, held.GPU) {
				continue
			}
			if why := h.refuses(uid, s.now(), end(term.Began, limit)); why != "" {
				return &InsufficientError{Err: fmt.Errorf("%s cannot be extended: %s is for %s", unit, held.GPU, why)}
			}
		}
	}
	return nil
}
