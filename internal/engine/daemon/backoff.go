package daemon

import (
	"math/rand/v2"
	"time"
)

// Backoff spaces the retries of a transient failure: First, then double, up to
// Most, each shortened by up to a quarter at random so that the hosts of a
// cluster that failed together do not try together.
type Backoff struct {
	First, Most time.Duration
	Random      func(n int64) int64 // returns a number from 0 to n-1; nil: [rand.Int64N]
}

// After returns how long to wait after n failures in a row, n from 1.
func (b Backoff) After(n int) time.Duration {
	d := b.First
	for ; n > 1 && d < b.Most; n-- {
		d *= 2
	}
	d = min(d, b.Most)
	random := b.Random
	if random == nil {
		random = rand.Int64N
	}
	return d - time.Duration(random(int64(d)/4+1))
}
