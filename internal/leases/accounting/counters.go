package accounting

import (
	"strconv"
	"strings"
)

// Used is what a lease used between its start and its end, by the counters of the driver.
type Used struct {
	Busy   map[string]float64 // mean utilisation in percent, by partition
	Energy map[string]float64 // joules, by GPU
}

// counters are the counters of a lease's partitions at one time.
type counters struct {
	busy   map[string]busyCounter // by partition
	energy map[string]uint64      // microjoules, by GPU
}

// busyCounter is the sum of a number of samples, each in percent.
type busyCounter struct{ sum, cycles uint64 }

// parseCounters parses the fields of an entry, "PARTITION SUM CYCLES" and "GPU MICROJOULES". It omits other
// texts.
func parseCounters(busy, energy []string) counters {
	c := counters{make(map[string]busyCounter), make(map[string]uint64)}
	for _, text := range busy {
		if words, numbers, ok := split(text, 2); ok {
			c.busy[words] = busyCounter{numbers[0], numbers[1]}
		}
	}
	for _, text := range energy {
		if words, numbers, ok := split(text, 1); ok {
			c.energy[words] = numbers[0]
		}
	}
	return c
}

// split parses a name followed by n numbers.
func split(text string, n int) (name string, numbers []uint64, ok bool) {
	words := strings.Fields(text)
	if len(words) != n+1 {
		return "", nil, false
	}
	for _, word := range words[1:] {
		number, err := strconv.ParseUint(word, 10, 64)
		if err != nil {
			return "", nil, false
		}
		numbers = append(numbers, number)
	}
	return words[0], numbers, true
}

// until returns the use between two readings. Counters that the driver has reset in between, and impossible
// values, are omitted.
func (c counters) until(end counters) Used {
	u := Used{make(map[string]float64), make(map[string]float64)}
	for name, to := range end.busy {
		from, ok := c.busy[name]
		if !ok || to.sum < from.sum {
			continue
		}
		cycles := to.cycles - from.cycles
		if to.cycles < from.cycles { // accumulation_counter has 32 bits
			cycles += 1 << 32
		}
		if percent := float64(to.sum-from.sum) / float64(cycles); cycles > 0 && percent <= 100 {
			u.Busy[name] = percent
		}
	}
	for name, to := range end.energy {
		if from, ok := c.energy[name]; ok && to >= from {
			u.Energy[name] = float64(to-from) / 1e6
		}
	}
	return u
}
