package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Rest is the activity of a process that should be idle, from proc(5).
type Rest struct {
	Awake    []int // samples in which a thread ran
	Switches int   // number of times that a thread was scheduled
	CPU      time.Duration
	Threads  int
}

// sampleInterval is the time between two readings of /proc. One burst of work falls into one
// interval.
const sampleInterval = time.Second

// idleDelay is the time from the last work of the process to the first reading. Until then
// the timers of met deadlines may still wake the runtime.
const idleDelay = 35 * time.Second

func rest(pid int, window time.Duration) (Rest, error) {
	tick := time.NewTicker(sampleInterval)
	defer tick.Stop()
	for range idleDelay / sampleInterval {
		<-tick.C
	}
	first, err := threads(pid)
	if err != nil {
		return Rest{}, err
	}
	r, last := Rest{}, first
	for second := range int(window / sampleInterval) {
		<-tick.C
		now, err := threads(pid)
		if err != nil {
			return r, err
		}
		if now.slices != last.slices {
			r.Awake = append(r.Awake, second)
		}
		last = now
	}
	r.Switches, r.CPU, r.Threads = last.slices-first.slices, last.ran-first.ran, last.count
	return r, nil
}

type sum struct {
	count, slices int
	ran           time.Duration
}

// threads sums the values of the process's threads. An unreadable file is that of a thread that
// has ended.
func threads(pid int) (sum, error) {
	files, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task/*/schedstat"))
	if err != nil || len(files) == 0 {
		return sum{}, fmt.Errorf("process %d does not exist: %v", pid, err)
	}
	var s sum
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		var waited, slices int
		var ran time.Duration
		if _, err := fmt.Fscan(strings.NewReader(string(text)), &ran, &waited, &slices); err != nil {
			return s, fmt.Errorf("%s: %w", file, err)
		}
		s.count, s.slices, s.ran = s.count+1, s.slices+slices, s.ran+ran
	}
	return s, nil
}
