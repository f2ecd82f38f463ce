package testdeadline

import (
	"sync"
	"time"
)

// sampleInterval is the time between two readings of the load. A longer pause counts as one
// interval, because this process did not run in it.
const sampleInterval = 100 * time.Millisecond

// process is the clock of all deadlines of this process. With a clock for each deadline, the
// readings of the load would themselves be a load.
var process = &clock{share: availableShare, deadlines: make(map[*deadline]bool)}

// clock counts the processor time that was available, while a deadline needs it.
type clock struct {
	share func() float64 // part of a processor that a task gets now

	mu        sync.Mutex
	runs      bool
	passed    time.Duration
	deadlines map[*deadline]bool
}

type deadline struct {
	at     time.Duration
	expire func()
}

// add calls expire after d, unless the returned function is called before. The interval that has begun
// does not count.
func (c *clock) add(d time.Duration, expire func()) (remove func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := &deadline{c.passed + d + sampleInterval, expire}
	c.deadlines[one] = true
	if !c.runs {
		c.runs = true
		go c.run()
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.deadlines, one)
	}
}

// run counts until no deadline is left.
func (c *clock) run() {
	ticker := time.NewTicker(sampleInterval)
	defer ticker.Stop()
	for c.tick() {
		<-ticker.C
	}
}

// tick counts one interval, and reports whether a deadline is left.
func (c *clock) tick() bool {
	share := c.share()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.passed += time.Duration(float64(sampleInterval) * share)
	for one := range c.deadlines {
		if one.at <= c.passed {
			delete(c.deadlines, one)
			go one.expire()
		}
	}
	c.runs = len(c.deadlines) > 0
	return c.runs
}
