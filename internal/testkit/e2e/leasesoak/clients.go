package leasesoak

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"dcm/internal/exitcode"
	"dcm/internal/linux/procstat"
	"dcm/internal/linux/unitname"
)

// client is a process of dcm run, which becomes the holder of the lease.
type client struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *json.Decoder
	errors  output
	user    string
	waits   bool          // it requested with --wait
	report  Report        // valid after decided
	granted bool          // valid after decided
	at      time.Time     // of the grant
	decided chan struct{} // closed when it has a lease or has ended
	ended   chan struct{} // closed when it has ended
}

func (p *client) pid() int { return p.cmd.Process.Pid }

// isClosed reports whether a channel is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// alive reports whether the process runs in the cgroup that it reported. A process that was
// killed may not be reaped yet.
func (p *client) alive() bool {
	if isClosed(p.ended) {
		return false
	}
	pid := strconv.Itoa(p.pid())
	cgroup, err := cgroupOf(pid)
	if err != nil || cgroup != p.report.Cgroup {
		return false
	}
	state := procstat.Read("/proc/"+pid, procstat.State)
	return !slices.Contains([]string{"", "Z", "X"}, state)
}

// clients are the running clients, in the order of their start.
type clients struct {
	mu        sync.Mutex
	all       []*client
	conflicts []string       // that a later check cannot undo
	answers   map[string]int // number of requests by result
}

// start starts a client.
func (c *clients) start(s Step) (*client, error) {
	p := &client{user: s.User, waits: s.Do == Wait, decided: make(chan struct{}), ended: make(chan struct{})}
	p.cmd = exec.Command("dcm", slices.Concat([]string{"run"}, s.Args, []string{"--", "e2e-agent", "hold"})...)
	p.cmd.Dir, p.cmd.Stderr = "/", &p.errors
	as, err := credential(s.User)
	if err != nil {
		return nil, err
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: as}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = json.NewDecoder(out)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.all = append(c.all, p)
	c.mu.Unlock()
	go c.follow(p)
	return p, nil
}

// output collects what a process writes while it runs.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// notExclusive reports whether dcm run has noted that an exclusive lease is not exclusive.
func (p *client) notExclusive() bool {
	return strings.Contains(p.errors.String(), "confined, not exclusive")
}

// follow waits for the grant and for the end of a client.
func (c *clients) follow(p *client) {
	if p.granted = p.out.Decode(&p.report) == nil; p.granted {
		c.enter(p)
	}
	_ = p.cmd.Wait() // refusal reads the exit status
	c.mu.Lock()
	c.all = slices.DeleteFunc(c.all, func(o *client) bool { return o == p })
	if !p.granted {
		c.answers[p.refusal()]++
	}
	c.mu.Unlock()
	close(p.ended)
	if !p.granted {
		close(p.decided)
	}
}

// refusal describes the end of a client that was granted nothing.
func (p *client) refusal() string {
	if p.cmd.ProcessState.ExitCode() < 0 {
		return "killed before the grant"
	}
	if code := p.cmd.ProcessState.ExitCode(); code != exitcode.Transient {
		return fmt.Sprintf("refused with %d: %s", code, strings.TrimSpace(p.errors.String()))
	}
	return "refused for now"
}

// enter compares the nodes of a new holder with those of the other holders. At this moment it
// is certain whether two holders have one partition.
func (c *clients) enter(p *client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(p.decided)
	c.answers["granted"]++
	p.at = time.Now()
	if p.notExclusive() {
		c.answers["granted, not exclusive"]++
	}
	others := slices.DeleteFunc(slices.Clone(c.all), func(o *client) bool { return o == p || !isClosed(o.decided) || !o.granted })
	for _, node := range p.report.Opens {
		if node == common {
			continue
		}
		units := []string{p.report.Unit()}
		for _, o := range others {
			if slices.Contains(o.report.Opens, node) && o.alive() && p.alive() {
				units = append(units, o.report.Unit())
			}
		}
		if !mayShare(units) {
			c.conflicts = append(c.conflicts, fmt.Sprintf("%s opens for processes of %s concurrently", node, units))
		}
	}
}

// mayShare reports whether units may hold one partition at the same time.
func mayShare(units []string) bool {
	if len(units) < 2 {
		return true
	}
	first, _ := unitname.ParseLease(units[0])
	return first.Kind == unitname.SharedLease && len(units) <= first.Of && !slices.ContainsFunc(units, func(unit string) bool {
		n, _ := unitname.ParseLease(unit)
		return n.Kind != unitname.SharedLease || n.Of != first.Of
	})
}

// holders are the clients with a lease, waiting those that wait for one.
func (c *clients) holders() []*client {
	return c.filter(func(p *client) bool { return isClosed(p.decided) && p.granted && !isClosed(p.ended) })
}

func (c *clients) waiting() []*client {
	return c.filter(func(p *client) bool { return p.waits && !isClosed(p.decided) })
}

func (c *clients) filter(are func(*client) bool) []*client {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.all), func(p *client) bool { return !are(p) })
}

// count counts an answer.
func (c *clients) count(answer string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers[answer]++
}

// drain returns the conflicts and the answers since the last call.
func (c *clients) drain() (conflicts []string, answers map[string]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	conflicts, answers = c.conflicts, c.answers
	c.conflicts, c.answers = nil, make(map[string]int)
	return conflicts, answers
}

func credential(name string) (*syscall.Credential, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	ids, err := u.GroupIds()
	if err != nil {
		return nil, err
	}
	out := &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	for _, id := range ids {
		n, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			return nil, err
		}
		out.Groups = append(out.Groups, uint32(n))
	}
	return out, nil
}
