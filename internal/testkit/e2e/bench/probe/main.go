// Command probe measures inside the container, so that the access to it does not count.
//
// "probe restart ROUNDS UNIT..." restarts the units in turn and prints for each
// restart how long systemctl took, in nanoseconds. "probe commands ROUNDS COMMAND..."
// does the same with commands; a command after "-" is run, but not measured. "probe messages 1 UNIT OTHER" restarts the two and
// prints how many messages of each kind the first has sent. "probe processor ROUNDS UNIT..."
// prints instead how much processor time each had when the others were up again too.
// "probe rest PID SECONDS" prints the activity of an idle process.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
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
		return nil, errors.New("usage: probe restart|processor ROUNDS UNIT... | probe commands ROUNDS COMMAND... | probe messages 1 UNIT OTHER | probe rest PID SECONDS")
	}
	n, err := strconv.Atoi(args[1])
	switch {
	case err != nil:
		return nil, err
	case args[0] == "restart":
		return restart(n, args[2:])
	case args[0] == "commands":
		return commands(n, args[2:])
	case args[0] == "messages" && len(args) == 4:
		return messages(args[2], args[3])
	case args[0] == "processor":
		return processor(n, args[2:])
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
	var all []string
	for _, unit := range units {
		all = append(all, "systemctl restart "+unit)
	}
	took, err := commands(rounds, all)
	out := make(map[string][]time.Duration)
	for i, unit := range units {
		out[unit] = took[all[i]]
	}
	return out, err
}

// commands runs the commands alternately. It does not measure one that begins with "-".
func commands(rounds int, all []string) (map[string][]time.Duration, error) {
	took := make(map[string][]time.Duration)
	for range rounds {
		for _, command := range all {
			name, unmeasured := strings.CutPrefix(command, "-")
			argv, began := strings.Fields(name), time.Now()
			if text, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
				return nil, fmt.Errorf("%s: %w: %s", command, err, text)
			}
			if !unmeasured {
				took[command] = append(took[command], time.Since(began))
			}
		}
	}
	return took, nil
}

// processor reads the CPU time late, because a started daemon may still work.
func processor(rounds int, units []string) (map[string][]time.Duration, error) {
	used := make(map[string][]time.Duration)
	for range rounds {
		if _, err := restart(1, units); err != nil {
			return nil, err
		}
		for _, unit := range units {
			text, err := exec.Command("systemctl", "show", "--property=CPUUsageNSec", "--value", unit).Output()
			if err != nil {
				return nil, err
			}
			ns, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
			if err != nil {
				return nil, err
			}
			used[unit] = append(used[unit], time.Duration(ns))
		}
	}
	return used, nil
}
