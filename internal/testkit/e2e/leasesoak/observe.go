package leasesoak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/godbus/dbus/v5"

	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/dbusapi"
)

const (
	runtime  = "/run/dcm"
	common   = "/dev/kfd"
	priv     = "unix:path=/run/systemd/private" // of PID 1, which needs no bus
	systemd  = "org.freedesktop.systemd1"
	patterns = "dcm-lease-*.scope dcm-exclusive-*.scope dcm-share*.scope alpha.service beta.service"
)

// Observation is the state at one moment.
type Observation struct {
	Parts   runstate.Partitions // partitions.json
	Links   map[string][]string // reservation → targets of its links
	Units   map[string][]string // unit → nodes that it may open, by PID 1; links are resolved
	Procs   map[string][]int    // scope → its processes, by the kernel
	Holders []Holder            // processes in leases
	Opens   []string            // nodes that a process of root in another slice can open
	Free    int                 // number of free partitions by dcm; -1 if unknown
	Message string              // of dcm about Free
	Waiting int
	Listed  map[string][]string // with Full: partition → holders, by dcm partitions
	Dry     string              // with Full: what is wrong with a request for all free partitions
}

// Holder is a process in a lease.
type Holder struct {
	PID int
	Report
}

// observe reads the state. It fails during a change, and can be repeated.
func (c *clients) observe(ctx context.Context, full bool) (Observation, error) {
	var errs [4]error
	l, err := observeLeases(ctx, c)
	errs[0] = err
	l.Links, errs[1] = links()
	l.Opens, errs[2] = openable()
	l.Free, l.Message, errs[3] = free(ctx)
	follow(l.Units, l.Links)
	if err := errors.Join(errs[:]...); err != nil || !full {
		return l, err
	}
	l.Listed, err = listed(ctx)
	l.Dry = dry(ctx, l.Free)
	return l, err
}

// observeLeases reads the clients, the units with their processes, and the partitions.
func observeLeases(ctx context.Context, c *clients) (Observation, error) {
	l := Observation{Waiting: len(c.waiting())}
	for _, p := range c.holders() {
		l.Holders = append(l.Holders, Holder{p.pid(), p.report})
	}
	var errs [3]error
	l.Units, errs[0] = units(ctx)
	l.Procs, errs[1] = procs()
	if p, err := runstate.ReadPartitions(runtime); err != nil || p == nil {
		errs[2] = fmt.Errorf("partitions are not listed: %w", err)
	} else {
		l.Parts = *p
	}
	return l, errors.Join(errs[:]...)
}

// units returns the active units of PID 1 with the nodes that they may open.
func units(ctx context.Context) (map[string][]string, error) {
	conn, err := dbus.Dial(priv)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.Auth(nil); err != nil {
		return nil, err
	}
	var list [][]any
	states := []string{"active", "activating", "deactivating", "reloading"}
	err = conn.Object(systemd, "/org/freedesktop/systemd1").CallWithContext(ctx, systemd+".Manager.ListUnitsByPatterns", 0, states, strings.Fields(patterns)).Store(&list)
	if err != nil {
		return nil, err
	}
	out := make(map[string][]string)
	for _, u := range list {
		name, path := u[0].(string), u[6].(dbus.ObjectPath)
		kind := map[string]string{".scope": ".Scope", ".service": ".Service"}[filepath.Ext(name)]
		var v dbus.Variant
		err := conn.Object(systemd, path).CallWithContext(ctx, "org.freedesktop.DBus.Properties.Get", 0, systemd+kind, "DeviceAllow").Store(&v)
		if err != nil {
			if strings.Contains(err.Error(), "nknown") { // "Unknown object" or "unknown unit": it is gone
				continue
			}
			return nil, err
		}
		out[name] = []string{}
		for _, a := range v.Value().([][]any) {
			out[name] = append(out[name], a[0].(string))
		}
	}
	return out, nil
}

func links() (map[string][]string, error) {
	out := make(map[string][]string)
	dirs, err := filepath.Glob("/dev/dcm/*")
	for _, dir := range dirs {
		for i := 0; ; i++ {
			to, err := os.Readlink(filepath.Join(dir, "render"+strconv.Itoa(i)))
			if errors.Is(err, fs.ErrNotExist) {
				break
			}
			if err != nil {
				return nil, err
			}
			out[filepath.Base(dir)] = append(out[filepath.Base(dir)], to)
		}
	}
	return out, err
}

// follow replaces links by their targets. A missing link opens nothing: a reservation that
// grows gets its links when leases release the partitions.
func follow(units, links map[string][]string) {
	for unit, nodes := range units {
		var out []string
		for _, path := range nodes {
			name, link, ok := strings.Cut(strings.TrimPrefix(path, "/dev/dcm/"), "/render")
			n, err := strconv.Atoi(link)
			switch {
			case !ok || err != nil || !strings.HasPrefix(path, "/dev/dcm/"):
				out = append(out, path)
			case n < len(links[name]):
				out = append(out, links[name][n])
			}
		}
		units[unit] = out
	}
}

func procs() (map[string][]int, error) {
	out := make(map[string][]int)
	files, err := filepath.Glob("/sys/fs/cgroup/dcm.slice/dcm-*.scope/cgroup.procs")
	for _, file := range files {
		unit := filepath.Base(filepath.Dir(file))
		text, err := os.ReadFile(file)
		if err != nil || !isLease(unit) { // gone, or the scope of a waiter
			continue
		}
		for _, f := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(f)
			if err != nil {
				return nil, err
			}
			out[unit] = append(out[unit], pid)
		}
	}
	return out, err
}

// Patterns that find the number of free partitions in the error of a request that is too large.
var (
	atMost = regexp.MustCompile(`(?:the node has|at most) (\d+)`)
	isFree = regexp.MustCompile(`(\d+) of \d+ `)
)

// free returns how many partitions are free, by the error about a request that is too large.
func free(ctx context.Context) (int, string, error) {
	c, err := dbusapi.Dial(ctx, dbusapi.SystemBus)
	if err != nil {
		return -1, "", err
	}
	defer c.Close()
	for n := 1 << 10; n > 0; {
		_, err := c.Acquire(ctx, dbusapi.Request{Partitions: n, DryRun: true})
		if err == nil {
			return n, fmt.Sprintf("%d are free", n), nil
		}
		said := map[bool]*regexp.Regexp{true: isFree, false: atMost}[dbusapi.IsInsufficient(err)].FindStringSubmatch(err.Error())
		if said == nil {
			return -1, "", fmt.Errorf("requested %d: %w", n, err)
		}
		number, nan := strconv.Atoi(said[1])
		if nan != nil || dbusapi.IsInsufficient(err) {
			return number, err.Error(), nan
		}
		if n = min(n-1, number); n == 0 {
			return 0, err.Error(), nil
		}
	}
	return 0, "", nil
}

// dry requests all free partitions, and one more.
func dry(ctx context.Context, free int) string {
	c, err := dbusapi.Dial(ctx, dbusapi.SystemBus)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	if free > 0 {
		if _, err := c.Acquire(ctx, dbusapi.Request{Partitions: free, DryRun: true}); err != nil {
			return fmt.Sprintf("dry run for all %d free partitions: want success, got %v", free, err)
		}
	}
	if l, err := c.Acquire(ctx, dbusapi.Request{Partitions: free + 1, DryRun: true}); !dbusapi.IsInsufficient(err) && !dbusapi.IsImpossible(err) {
		return fmt.Sprintf("dry run for one more than %d free partitions: want a refusal, got %v, %v", free, l, err)
	}
	return ""
}

func listed(ctx context.Context) (map[string][]string, error) {
	text, err := exec.CommandContext(ctx, "dcm", "partitions", "--json").Output()
	if err != nil {
		return nil, fmt.Errorf("dcm partitions: %w", err)
	}
	var all []struct {
		Name    string   `json:"name"`
		Holders []string `json:"holders"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("dcm partitions --json: %w: %s", err, text)
	}
	out := make(map[string][]string)
	for _, p := range all {
		out[p.Name] = slices.Sorted(slices.Values(p.Holders))
	}
	return out, nil
}
