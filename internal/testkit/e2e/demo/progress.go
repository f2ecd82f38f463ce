package main

import (
	"fmt"
	"io"
	"time"
)

// progressInterval is the longest time without a line of output.
const progressInterval = 10 * time.Second

// progress prints the number of each step of the demo, and how long the current one takes.
type progress struct {
	w     io.Writer
	total int
	step  int
}

// run runs a step. Until it returns, a line is printed each interval.
func (p *progress) run(name string, interval time.Duration, step func() error) error {
	p.step++
	line := fmt.Sprintf("demo: step %d of %d: %s", p.step, p.total, name)
	fmt.Fprintln(p.w, line)
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		start, ticker := time.Now(), time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				fmt.Fprintf(p.w, "%s: %.0f s so far\n", line, time.Since(start).Seconds())
			}
		}
	}()
	err := step()
	close(done)
	<-stopped
	return err
}
