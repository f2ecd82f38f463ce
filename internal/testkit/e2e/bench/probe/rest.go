package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Rest is what a process did in a while, see proc(5).
type Rest struct {
	Awake    []int // the seconds in which any of its threads ran
	Switches int   // times that a thread was put on a processor
	CPU      time.Duration
	Threads  int
}

// look is how often the process is looked at: what it does at one moment has to
// fall into one look.
const look = time.Second

// calm is how long ago the process's last work has to be. Until then the deadlines
// of that work, which it met, may still wake the runtime once each.
const calm = 35 * time.Second

func rest(pid int, window time.Duration) (Rest, error) {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for range calm / look {
		<-tick.C
	}
	first, err := threads(pid)
	if err != nil {
		return Rest{}, err
	}
	r, last := Rest{}, first
	for second := range int(window / look) {
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

// threads adds up the process's threads. A file that cannot be read is that of a
// thread that has ended meanwhile.
func threads(pid int) (sum, error) {
	files, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task/*/schedstat"))
	if err != nil || len(files) == 0 {
		return sum{}, fmt.Errorf("process %d is not there: %v", pid, err)
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
