package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"time"
)

// messages counts the bus messages of a unit's start: those of all connections that were made
// meanwhile. It listens until another unit is restarted, because a started daemon may still
// work.
func messages(unit, other string) (map[string]int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	monitor := exec.CommandContext(ctx, "dbus-monitor", "--system")
	heard, err := monitor.StdoutPipe()
	if err == nil {
		err = monitor.Start()
	}
	if err != nil {
		cancel()
		return nil, err
	}
	defer monitor.Wait()
	defer cancel()
	lines := bufio.NewScanner(heard)
	if !lines.Scan() { // a monitor gets a NameLost signal
		return nil, errors.Join(lines.Err(), io.ErrUnexpectedEOF)
	}
	if _, err := restart(1, []string{unit, other}); err != nil {
		return nil, err
	}
	if text, err := exec.Command("busctl", "emit", "/", ending, "End").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("busctl emit: %w: %s", err, text)
	}
	return tally(lines)
}

// ending is the interface of the signal that ends the count.
const ending = "org.deviceconfig.Bench"

var message = regexp.MustCompile(`^(method call|signal|method return|error) .*\bsender=(:\S+) .*interface=([^;]+); member=(\S+)`)

// tally counts the messages of each new connection, except that of the ending signal.
func tally(lines *bufio.Scanner) (map[string]int, error) {
	sent := make(map[string]map[string]int) // by sender
	for lines.Scan() {
		m := message.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		kind, sender, member := m[1], m[2], m[4]
		if m[3] == ending {
			delete(sent, sender)
			return total(sent), nil
		}
		if member == "Hello" {
			sent[sender] = make(map[string]int)
		}
		if own, ok := sent[sender]; ok {
			own[kind+" "+member]++
		}
	}
	return nil, errors.Join(lines.Err(), io.ErrUnexpectedEOF)
}

func total(sent map[string]map[string]int) map[string]int {
	all := make(map[string]int)
	for _, own := range sent {
		for what, n := range own {
			all[what] += n
		}
	}
	return all
}
