package systemd

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"

	"dcm/internal/testkit/testdeadline"
)

// pid1 is a stand-in for PID 1 on a separate bus, with a few units, jobs that the test ends, and the
// signals of systemd for them.
type pid1 struct {
	*testing.T
	address string
	script  func(name string, call int) *dbus.Error // simulates the effect of RestartUnit
	version string                                  // of systemd

	mu            sync.Mutex
	conn          *dbus.Conn
	units         map[string]*sd.UnitStatus
	props         map[string]map[string]any   // unit → property
	onList        func(n int, names []string) // called after the nth list of units
	amid          func(n int)                 // called before the reply with the nth list of units
	lists         int
	files         []string // the names of unit files
	loadedForList []string // the units that a list had to load
	gets          int      // of properties
	hearers       int      // calls of Subscribe
	restarts      int
	reloads       int
	tried         []string // units of TryRestartUnit
	jobs          uint32
}

// startPID1 starts a dbus-daemon and a stand-in on it.
func startPID1(t *testing.T) *pid1 {
	t.Helper()
	p := &pid1{T: t, address: startBus(t), units: map[string]*sd.UnitStatus{}, props: map[string]map[string]any{}}
	p.appear()
	return p
}

func startBus(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("dbus-daemon")
	if err != nil {
		t.Skip("needs dbus-daemon, which is not installed")
	}
	// The path of t.TempDir contains the test's name, which would need escapes in an address.
	dir, err := os.MkdirTemp("", "bus")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket, config := filepath.Join(dir, "bus"), filepath.Join(dir, "bus.conf")
	write(t, config, `<busconfig><type>session</type><listen>unix:path=`+socket+`</listen>
<policy context="default"><allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/></policy></busconfig>`)
	cmd := exec.Command(program, "--nofork", "--print-address", "--config-file="+config)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// appear acquires the manager's name on the bus, as PID 1 does at its start and after a reexec.
func (p *pid1) appear() {
	p.Helper()
	conn, err := dbus.Connect(p.address)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { conn.Close() })
	p.mu.Lock()
	p.conn = conn
	p.mu.Unlock()
	if err := conn.ExportMethodTable(p.manager(), managerPath, managerInterface); err != nil {
		p.Fatal(err)
	}
	get := map[string]any{"Get": p.get}
	if err := conn.ExportSubtreeMethodTable(get, unitPaths, properties); err != nil {
		p.Fatal(err)
	}
	version := map[string]any{"Get": func(_, _ string) (dbus.Variant, *dbus.Error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		return dbus.MakeVariant(p.version), nil
	}}
	if err := conn.ExportMethodTable(version, managerPath, properties); err != nil {
		p.Fatal(err)
	}
	if _, err := conn.RequestName(service, dbus.NameFlagDoNotQueue); err != nil {
		p.Fatal(err)
	}
}

// vanish disconnects from the bus without replying to pending calls.
func (p *pid1) vanish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conn.Close()
}

func (p *pid1) manager() map[string]any {
	return map[string]any{
		"Subscribe": func() *dbus.Error {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.hearers++
			return nil
		},
		"ListUnitsByNames": func(names []string) ([]sd.UnitStatus, *dbus.Error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			var out []sd.UnitStatus
			for _, name := range names {
				out = append(out, *p.unit(name))
				if _, loaded := p.units[name]; !loaded {
					p.loadedForList = append(p.loadedForList, name)
				}
			}
			p.lists++
			if p.amid != nil {
				p.amid(p.lists)
			}
			if p.onList != nil {
				go p.onList(p.lists, names)
			}
			return out, nil
		},
		"GetUnit": func(name string) (dbus.ObjectPath, *dbus.Error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if _, loaded := p.units[name]; !loaded {
				return "", dbus.NewError("org.freedesktop.systemd1.NoSuchUnit", []any{"Unit " + name + " not loaded."})
			}
			return unitPath(name), nil
		},
		"ListUnitsByPatterns": func(states, patterns []string) ([]sd.UnitStatus, *dbus.Error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			var out []sd.UnitStatus
			for name, status := range p.units {
				if ok, _ := filepath.Match(patterns[0], name); ok && (len(states) == 0 || slices.Contains(states, status.ActiveState)) {
					out = append(out, *status)
				}
			}
			return out, nil
		},
		"ListUnitFilesByPatterns": func(_, patterns []string) ([]struct{ Path, State string }, *dbus.Error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			var out []struct{ Path, State string }
			for _, name := range p.files {
				if ok, _ := filepath.Match(patterns[0], name); ok {
					out = append(out, struct{ Path, State string }{"/etc/systemd/system/" + name, "disabled"})
				}
			}
			return out, nil
		},
		"RestartUnit": func(name, mode string) (dbus.ObjectPath, *dbus.Error) {
			p.mu.Lock()
			p.restarts++
			n := p.restarts
			p.jobs++
			job, script := jobPath(p.jobs), p.script
			p.mu.Unlock()
			if mode != "replace" {
				return "", dbus.NewError("wrong.Mode", []any{mode})
			}
			return job, script(name, n)
		},
		"TryRestartUnit": func(name, _ string) (dbus.ObjectPath, *dbus.Error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.tried = append(p.tried, name)
			if p.units[name] == nil {
				return "", dbus.NewError("org.freedesktop.systemd1.NoSuchUnit", nil)
			}
			return jobPath(1), nil
		},
		"ReloadOrRestartUnit": func(name, mode string) (dbus.ObjectPath, *dbus.Error) {
			p.mu.Lock()
			p.jobs++
			job, script := jobPath(p.jobs), p.script
			p.mu.Unlock()
			return job, script(name, 1)
		},
		"StartUnit": func(name, mode string) (dbus.ObjectPath, *dbus.Error) {
			p.mu.Lock()
			p.jobs++
			job, script := jobPath(p.jobs), p.script
			p.mu.Unlock()
			return job, script(name, 1)
		},
		"ReloadUnit": func(name, mode string) (dbus.ObjectPath, *dbus.Error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.restarts++
			return jobPath(1), nil
		},
		"StartTransientUnit": func(name, mode string, properties []property, _ []struct {
			Name       string
			Properties []property
		}) (dbus.ObjectPath, *dbus.Error) {
			p.mu.Lock()
			_, known := p.units[name]
			p.mu.Unlock()
			if known {
				return "", dbus.NewError("org.freedesktop.systemd1.UnitExists", []any{name})
			}
			p.set(name, "active/active", "")
			for _, v := range properties {
				p.property(name, v.Name, v.Value.Value())
			}
			p.emit(managerPath, managerInterface+".JobRemoved", uint32(1), jobPath(1), name, "done")
			return jobPath(1), nil
		},
		"StopUnit": func(name, mode string) (dbus.ObjectPath, *dbus.Error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if _, ok := p.units[name]; !ok {
				return "", dbus.NewError("org.freedesktop.systemd1.NoSuchUnit", []any{name})
			}
			delete(p.units, name)
			return jobPath(1), nil
		},
		"Reload": func() *dbus.Error { p.mu.Lock(); defer p.mu.Unlock(); p.reloads++; return nil },
		"ResetFailedUnit": func(name string) *dbus.Error {
			p.mu.Lock()
			defer p.mu.Unlock()
			if _, ok := p.units[name]; !ok {
				return dbus.NewError("org.freedesktop.systemd1.NoSuchUnit", []any{"Unit " + name + " not loaded."})
			}
			p.units[name].ActiveState = "inactive"
			return nil
		},
	}
}

func jobPath(n uint32) dbus.ObjectPath {
	return dbus.ObjectPath(fmt.Sprintf("%s/job/%d", managerPath, n))
}

// unit returns a unit's status, a stub if there is no such unit.
func (p *pid1) unit(name string) *sd.UnitStatus {
	if u, ok := p.units[name]; ok {
		return u
	}
	return &sd.UnitStatus{Name: name, LoadState: "not-found", ActiveState: "inactive", SubState: "dead", Path: unitPath(name), JobPath: "/"}
}

func (p *pid1) get(m dbus.Message, iface, property string) (dbus.Variant, *dbus.Error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gets++
	path, _ := m.Headers[dbus.FieldPath].Value().(dbus.ObjectPath)
	for name := range p.units {
		if unitPath(name) != path {
			continue
		}
		v, ok := p.props[name][property]
		if ok && v == nil {
			return dbus.Variant{}, dbus.NewError("org.freedesktop.DBus.Error.UnknownProperty", nil)
		}
		if ok {
			return dbus.MakeVariant(v), nil
		}
		switch property {
		case "InvocationID":
			return dbus.MakeVariant([]byte{}), nil
		case "Result":
			return dbus.MakeVariant("success"), nil
		case "Type":
			return dbus.MakeVariant("simple"), nil
		case "NRestarts", "MainPID", "ControlPID":
			return dbus.MakeVariant(uint32(0)), nil
		}
		if strings.HasPrefix(property, "Exec") {
			return dbus.MakeVariant([]execution{}), nil
		}
		return dbus.MakeVariant([]string{}), nil
	}
	return dbus.Variant{}, dbus.NewError("org.freedesktop.DBus.Error.UnknownObject", nil)
}

// set puts a unit into a state, "active/exited" or "activating/start*", the star
// for a job, without a signal. The invocation is a hexadecimal byte or "".
func (p *pid1) set(name, state, invocation string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	state, job := strings.CutSuffix(state, "*")
	active, sub, _ := strings.Cut(state, "/")
	u := &sd.UnitStatus{Name: name, LoadState: "loaded", ActiveState: active, SubState: sub, Path: unitPath(name), JobPath: "/"}
	if job {
		u.JobId = 1
	}
	p.units[name] = u
	id, err := hex.DecodeString(invocation)
	if err != nil {
		p.Error(err)
	}
	if p.props[name] == nil {
		p.props[name] = map[string]any{}
	}
	p.props[name]["InvocationID"] = id
}

func (p *pid1) onRestart(script func(name string, call int) *dbus.Error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.script = script
}

func (p *pid1) afterList(f func(n int, names []string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onList = f
}

func (p *pid1) property(unit, name string, value any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.props[unit][name] = value
}

func (p *pid1) load(unit, state string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.units[unit].LoadState = state
}

func (p *pid1) alias(name, unit string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.units[name], p.props[name] = p.units[unit], p.props[unit]
}

// signal puts a unit into a state and sends the signal.
func (p *pid1) signal(name, state, invocation string) {
	p.set(name, state, invocation)
	p.emit(unitPath(name), properties+".PropertiesChanged", unitInterface, map[string]dbus.Variant{}, []string{})
}

// removed signals the end of the last job.
func (p *pid1) removed(name, result string) {
	p.mu.Lock()
	n := p.jobs
	p.mu.Unlock()
	p.emit(managerPath, managerInterface+".JobRemoved", n, jobPath(n), name, result)
}

func (p *pid1) emit(path dbus.ObjectPath, name string, values ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.conn.Emit(path, name, values...); err != nil {
		p.Error(err)
	}
}

func (p *pid1) count(what *int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return *what
}

func (p *pid1) dial() (*Conn, context.Context) {
	p.Helper()
	ctx, cancel := testdeadline.Context(p.Context(), 20*time.Second)
	p.Cleanup(cancel)
	c, err := DialAt(ctx, p.address, "")
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { c.Close() })
	return c, ctx
}
