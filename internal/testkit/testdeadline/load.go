package testdeadline

import (
	"os"
	"runtime"
	"strconv"
	"strings"
)

// availableShare returns the part of a processor that a task gets now.
func availableShare() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 1
	}
	return share(string(text), runtime.NumCPU())
}

// share computes it from the text of /proc/loadavg. The load is the larger of two values: the
// average of the last minute, which includes tasks that wait for a disk, and the number of
// tasks that are runnable now.
func share(loadavg string, processors int) float64 {
	fields := strings.Fields(loadavg)
	if len(fields) < 4 {
		return 1
	}
	load, _ := strconv.ParseFloat(fields[0], 64)
	text, _, _ := strings.Cut(fields[3], "/")
	running, _ := strconv.ParseFloat(text, 64)
	return min(1, float64(processors)/max(load, running, 1))
}
