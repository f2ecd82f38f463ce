package leases

import (
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
	"dcm/internal/linux/unitname"
)

// idleValue is the value of --until-idle; 0 for none.
type idleValue time.Duration

func (v *idleValue) Set(text string) error {
	limit, err := console.ParseDuration(text)
	if err == nil && limit < idleInterval {
		err = fmt.Errorf("too short; want %s or more, such as 30m", idleInterval)
	}
	*v = idleValue(limit)
	return err
}

func (v *idleValue) String() string { return "" }

// Type is the name of the value in the help.
func (v *idleValue) Type() string { return "duration" }

// idleInterval is how often the process that keeps a lease reads the number of its processes.
const idleInterval = 5 * time.Second

// idleScript returns a script that exits when the cgroup $2 has had no other process in $1 consecutive readings, each after
// $3 seconds. It starts no program to read: that would be another process. cgroup.procs has the processes of the cgroup
// itself, and cgroup.events of each cgroup below shows whether that one has any.
func idleScript() string {
	return strings.Join([]string{
		`used() {`,
		`count=0`,
		`while read -r _; do count=$((count + 1)); done < "$1/cgroup.procs" || return 0`,
		`[ "$count" -le 1 ] || return 0`,
		`for events in "$1"/*/cgroup.events; do`,
		`[ -e "$events" ] || continue`,
		`while read -r key value; do [ "$key $value" != "populated 1" ] || return 0; done < "$events"`,
		`done`,
		`return 1`,
		`}`,
		`left=$1`,
		`while [ "$left" -gt 0 ]; do`,
		`sleep "$3" || exit`,
		`left=$((left - 1))`,
		`if used "$2"; then left=$1; fi`,
		`done`,
	}, "\n")
}

// keep starts a process in the lease of this one, which ends with it. It has no terminal, so the end of the session does not
// end it. With idle, it ends when the lease has had no other process for that time.
func keep(h *host.Host, unit string, idle time.Duration) error {
	command := []string{"sleep", "infinity"}
	if idle > 0 {
		command = untilIdle(h.Path("sys/fs/cgroup", unitname.Slice, unit), idle, idleInterval)
	}
	program, err := exec.LookPath(command[0])
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return err
	}
	cmd := exec.Command(program, command[1:]...)
	cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release()
}

// untilIdle returns the command that exits when the lease with this cgroup has been idle.
func untilIdle(cgroup string, idle, interval time.Duration) []string {
	readings := (idle + interval - 1) / interval
	return []string{shell, "-c", idleScript(), "dcm-hold", strconv.FormatInt(int64(readings), 10), cgroup, strconv.FormatFloat(interval.Seconds(), 'f', -1, 64)}
}
