// Command probe takes, inside the container, those measurements that the way in
// and out of it would blur.
//
// "probe restart ROUNDS UNIT..." restarts the units in turn and prints for each
// restart how long systemctl took, in nanoseconds. "probe rest PID SECONDS" watches
// a process that has nothing to do and prints what it did all the same.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"
)

func main() {
	answer, err := run(os.Args[1:])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(answer)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}

func run(args []string) (any, error) {
	if len(args) < 3 {
		return nil, errors.New("usage: probe restart ROUNDS UNIT... | probe rest PID SECONDS")
	}
	n, err := strconv.Atoi(args[1])
	switch {
	case err != nil:
		return nil, err
	case args[0] == "restart":
		return restart(n, args[2:])
	case args[0] != "rest":
		return nil, fmt.Errorf("cannot measure %q", args[0])
	}
	seconds, err := strconv.Atoi(args[2])
	if err != nil {
		return nil, err
	}
	return rest(n, time.Duration(seconds)*time.Second)
}

func restart(rounds int, units []string) (map[string][]time.Duration, error) {
	took := make(map[string][]time.Duration)
	for range rounds {
		for _, unit := range units {
			began := time.Now()
			if text, err := exec.Command("systemctl", "restart", unit).CombinedOutput(); err != nil {
				return nil, fmt.Errorf("cannot restart %s: %w: %s", unit, err, text)
			}
			took[unit] = append(took[unit], time.Since(began))
		}
	}
	return took, nil
}
