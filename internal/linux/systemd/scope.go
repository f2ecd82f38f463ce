package systemd

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"

	"dcm/internal/sanitize"
)

// Scope is a unit for a process that already runs.
type Scope struct {
	Name        string // "….scope"
	Description string
	Slice       string
	PID         uint32
	PIDFD       *os.File // of the process; without it PID 1 uses the PID, which may be reused by then
	Allow       []string // device nodes that it may open, in addition to null, zero, terminals and the like
	Open        bool     // it may open every device; Allow is not used
	Extra       []Property
}

// StartScope creates a scope and moves a process into it. It returns when the process is in the
// scope. The scope ends with its last process, and survives a daemon-reexec. It fails if a unit of
// that name exists.
func (r Transients) StartScope(ctx context.Context, s Scope) error {
	return r.start(ctx, s.Name, func(job *dbus.ObjectPath) error {
		if s.PIDFD != nil {
			return r.queueWithPIDFD(ctx, job, s)
		}
		return r.queue(ctx, job, s.Name, s.properties())
	})
}

// queueWithPIDFD is transient for a scope with a pidfd.
func (r Transients) queueWithPIDFD(ctx context.Context, job *dbus.ObjectPath, s Scope) error {
	l, err := r.t.session(ctx)
	if err != nil {
		return err
	}
	body := []any{s.Name, "fail", s.properties(), auxiliary{}}
	msg := &dbus.Message{
		Type:  dbus.TypeMethodCall,
		Flags: dbus.FlagNoAutoStart,
		Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldDestination: dbus.MakeVariant(service), dbus.FieldPath: dbus.MakeVariant(managerPath), dbus.FieldInterface: dbus.MakeVariant(managerInterface),
			dbus.FieldMember: dbus.MakeVariant("StartTransientUnit"), dbus.FieldSignature: dbus.MakeVariant(dbus.SignatureOf(body...)),
		},
		Body: body,
	}
	call, files := l.Exchange(ctx, msg, s.PIDFD)
	for _, f := range files {
		f.Close()
	}
	return sanitize.Error(call.Store(job))
}

// permission is an entry of DeviceAllow=.
type permission struct{ Path, Access string }

func (s Scope) properties() []property {
	allow := make([]permission, len(s.Allow))
	for i, node := range s.Allow {
		allow[i] = permission{node, "rwm"}
	}
	process := Property{"PIDs", []uint32{s.PID}}
	if s.PIDFD != nil {
		process = Property{"PIDFDs", []dbus.UnixFDIndex{0}}
	}
	list := []Property{
		{"Description", s.Description}, {"Slice", s.Slice}, process,
		// A failed scope is unloaded; otherwise its name would appear among the holders.
		{"CollectMode", "inactive-or-failed"},
	}
	if !s.Open {
		list = append(list, Property{"DevicePolicy", closed}, Property{"DeviceAllow", allow})
	}
	return variants(slices.Concat(list, s.Extra))
}

// scopePIDFDs is the version of systemd that introduced PIDFDs= of scopes.
const scopePIDFDs = 254

// PIDFDs reports whether PID 1 accepts pidfds for scopes.
func (r Transients) PIDFDs(ctx context.Context) (bool, error) {
	version, err := r.version(ctx)
	return version >= scopePIDFDs, err
}

// version returns the major version of PID 1. Its text has the form "257.13-1~deb13u1" or "v257".
func (r Transients) version(ctx context.Context) (int, error) {
	var text string
	if err := r.t.managerProperty(ctx, "Version", &text); err != nil {
		return 0, err
	}
	return parseVersion(text)
}

func parseVersion(text string) (int, error) {
	digits := strings.TrimPrefix(strings.TrimPrefix(text, "systemd "), "v")
	if end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		digits = digits[:end]
	}
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0, fmt.Errorf("systemd: unknown form of its version (found %q, want a number first)", text)
	}
	return n, nil
}

// Delegated reports whether a scope has Delegate=, so that PID 1 moves other processes into it.
func (r Transients) Delegated(ctx context.Context, scope string) (bool, error) {
	var yes bool
	err := r.t.property(ctx, scope, cgroupInterface(scope), "Delegate", &yes)
	return yes, err
}

// Term has the start and the time limit of a scope.
type Term struct {
	Began time.Time
	Limit time.Duration // 0 for no limit
}

// Terms returns the terms of scopes by name, without scopes that have ended.
func (r Transients) Terms(ctx context.Context, scopes []string) (map[string]Term, error) {
	terms := make([]Term, len(scopes))
	err := each(len(scopes), func(i int) error {
		var limit, began uint64 // microseconds
		err := r.t.property(ctx, scopes[i], cgroupInterface(scopes[i]), "RuntimeMaxUSec", &limit)
		if err == nil {
			err = r.t.property(ctx, scopes[i], unitInterface, "ActiveEnterTimestamp", &began)
		}
		if err != nil || began == 0 {
			if now, again := r.t.list(ctx, scopes[i:i+1]); again == nil && !now[0].up() {
				return nil
			}
			return err
		}
		terms[i].Began = time.UnixMicro(int64(began))
		if limit != math.MaxUint64 {
			terms[i].Limit = time.Duration(limit) * time.Microsecond
		}
		return nil
	})
	out := make(map[string]Term)
	for i, name := range scopes {
		if !terms[i].Began.IsZero() {
			out[name] = terms[i]
		}
	}
	return out, err
}
