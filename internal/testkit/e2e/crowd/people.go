package crowd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"dcm/internal/leases/lease"
)

// person is a process that asked for a lease.
type person struct {
	cmd      *exec.Cmd
	in       io.WriteCloser
	out      *json.Decoder
	errors   output
	user     string
	waits    bool          // for as long as it takes
	aborted  bool          // it was killed when it had asked
	said     Said          // to be read when it has been answered
	given    bool          // the same
	at       time.Time     // of the answer
	answered chan struct{} // closed when it has a lease, or has ended
	ended    chan struct{} // closed when it has ended
}

func (p *person) pid() int { return p.cmd.Process.Pid }

// over tells whether something has happened.
func over(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// alive tells whether it still runs where it said that it does. Who was killed may not
// have been heard of yet.
func (p *person) alive() bool {
	if over(p.ended) {
		return false
	}
	pid := strconv.Itoa(p.pid())
	cgroup, err := cgroupOf(pid)
	stat, unread := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil || unread != nil || cgroup != p.said.Cgroup {
		return false
	}
	state := strings.TrimSpace(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	return !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}

// people are all who are there, in the order in which they came.
type people struct {
	mu     sync.Mutex
	all    []*person
	twice  []string       // what no later look can take back
	answer map[string]int // how many were told what
}

// come has somebody ask for a lease.
func (c *people) come(s Step) (*person, error) {
	p := &person{user: s.User, waits: s.Do == Wait, aborted: s.Do == Abort, answered: make(chan struct{}), ended: make(chan struct{})}
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

// output is what a process writes while it runs.
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

// shared tells whether somebody who wanted a lease to be exclusive was told that it is not.
func (p *person) shared() bool { return strings.Contains(p.errors.String(), "confined, not exclusive") }

// follow hears what becomes of somebody.
func (c *people) follow(p *person) {
	if p.given = p.out.Decode(&p.said) == nil; p.given {
		c.enter(p)
	}
	_ = p.cmd.Wait() // how it ended is told below
	c.mu.Lock()
	c.all = slices.DeleteFunc(c.all, func(o *person) bool { return o == p })
	if !p.given {
		c.answer[p.refusal()]++
	}
	c.mu.Unlock()
	close(p.ended)
	if !p.given {
		close(p.answered)
	}
}

// refusal is how somebody ended who has not been given anything.
func (p *person) refusal() string {
	if p.cmd.ProcessState.ExitCode() < 0 {
		return "killed before the answer"
	}
	text := p.errors.String()
	if strings.Contains(text, "too many of your calls are under way") { // of sixteen at once
		return "too many at once"
	}
	if p.cmd.ProcessState.ExitCode() != 75 {
		return fmt.Sprintf("refused with %d: %s", p.cmd.ProcessState.ExitCode(), strings.TrimSpace(text))
	}
	return "not enough, or others in line"
}

// enter compares what somebody was given with what those have who are there still: this
// is the moment at which it is certain that two have it, or that they do not.
func (c *people) enter(p *person) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(p.answered)
	c.answer["given"]++
	p.at = time.Now()
	if p.shared() {
		c.answer["told that it is not exclusive"]++
	}
	others := slices.DeleteFunc(slices.Clone(c.all), func(o *person) bool { return o == p || !over(o.answered) || !o.given })
	for _, node := range p.said.Opens {
		if node == common {
			continue
		}
		units := []string{p.said.Unit()}
		for _, o := range others {
			if slices.Contains(o.said.Opens, node) && o.alive() && p.alive() {
				units = append(units, o.said.Unit())
			}
		}
		if !together(units) {
			c.twice = append(c.twice, fmt.Sprintf("%s opens for processes of %s at once", node, units))
		}
	}
}

// together tells whether units may have one partition at the same time.
func together(units []string) bool {
	if len(units) < 2 {
		return true
	}
	first, _ := lease.ParseName(units[0])
	return first.Kind == lease.Shared && len(units) <= first.Of && !slices.ContainsFunc(units, func(unit string) bool {
		n, _ := lease.ParseName(unit)
		return n.Kind != lease.Shared || n.Of != first.Of
	})
}

// holders are who have a lease, waiting who stand in line.
func (c *people) holders() []*person {
	return c.those(func(p *person) bool { return over(p.answered) && p.given && !over(p.ended) })
}

func (c *people) waiting() []*person {
	return c.those(func(p *person) bool { return p.waits && !over(p.answered) })
}

func (c *people) those(are func(*person) bool) []*person {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.all), func(p *person) bool { return !are(p) })
}

// tell counts an answer.
func (c *people) tell(answer string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer[answer]++
}

// taken returns what is to be told, once.
func (c *people) taken() (twice []string, answers map[string]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	twice, answers = c.twice, c.answer
	c.twice, c.answer = nil, make(map[string]int)
	return twice, answers
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
