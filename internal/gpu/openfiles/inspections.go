package openfiles

import (
	"sync"
	"time"
)

// maxHung limits the inspections that hang. Each occupies a thread.
const maxHung = 16

// inspections are the inspections of processes that have not returned. A system call that hangs cannot be
// cancelled, and occupies a thread until it returns. So the list is one for this program.
type inspections struct {
	mu      sync.Mutex
	running map[string][]time.Time // start times, by the process's directory in procfs
}

// active is the list of this program.
var active = inspections{running: make(map[string][]time.Time)}

// begin adds an inspection. It returns false if an earlier one of the process hangs, or too many others: they
// have taken longer than limit.
func (i *inspections) begin(process string, now time.Time, limit time.Duration) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	hung := 0
	for other, began := range i.running {
		for _, t := range began {
			if now.Sub(t) < limit {
				continue
			}
			if hung++; other == process || hung >= maxHung {
				return false
			}
		}
	}
	i.running[process] = append(i.running[process], now)
	return true
}

// end removes an inspection that began at that time.
func (i *inspections) end(process string, began time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for at, t := range i.running[process] {
		if t.Equal(began) {
			i.running[process] = append(i.running[process][:at], i.running[process][at+1:]...)
			break
		}
	}
	if len(i.running[process]) == 0 {
		delete(i.running, process)
	}
}
