package testdeadline

import (
	"testing"
	"time"
)

func TestClock_Load(t *testing.T) {
	share := 0.5
	c := &clock{share: func() float64 { return share }, runs: true, deadlines: make(map[*deadline]bool)}
	expired := make(chan string)
	c.add(2*sampleInterval, func() { expired <- "first" })
	remove := c.add(3*sampleInterval, func() { expired <- "removed" })
	c.add(4*sampleInterval, func() { expired <- "last" })
	remove()
	ticks := func() (n int) {
		for before := len(c.deadlines); len(c.deadlines) == before; n++ {
			c.tick()
		}
		return n
	}
	if n, name := ticks(), <-expired; n != 6 || name != "first" {
		t.Errorf("%s expired after %d intervals with half a processor, want first after 6", name, n)
	}
	share = 1
	if n, name := ticks(), <-expired; n != 2 || name != "last" {
		t.Errorf("%s expired %d intervals later with a whole processor, want last after 2", name, n)
	}
	if c.runs {
		t.Error("the clock goes on without a deadline")
	}
}

func TestClock_RunsWhileNeeded(t *testing.T) {
	<-After(time.Millisecond)
	<-After(time.Millisecond)
}
