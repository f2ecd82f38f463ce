package e2e_test

import (
	"encoding/json"
	"slices"
	"strings"

	"dcm/internal/frontends/status"
	"dcm/internal/testkit/e2e/remote"
	"dcm/internal/testkit/testdeadline"
)

// Messages change. Assertions name exit statuses, JSON values, journal fields, D-Bus errors,
// and of a message only names and numbers. A test compares a sentence only if that is its subject.

// hasAll reports whether a text has all of the parts: names, paths and numbers.
func hasAll(text string, parts ...string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

// exits checks a command's exit status, and that its output has all of the parts.
func (m machine) exits(want int, command string, parts ...string) remote.Result {
	m.t.Helper()
	r := m.try(command)
	if r.Code != want || !hasAll(r.Stdout+r.Stderr, parts...) {
		m.t.Errorf("%s: want exit status %d and %q, got %d:\n%s%s", command, want, parts, r.Code, r.Stdout, r.Stderr)
	}
	return r
}

// account returns what dcm status --json prints, whatever its exit status.
func (m machine) account() (a status.Account) {
	m.t.Helper()
	r := m.try("dcm status --json")
	if err := json.Unmarshal([]byte(r.Stdout), &a); err != nil {
		m.t.Fatalf("dcm status --json: %v\n%s%s", err, r.Stdout, r.Stderr)
	}
	return a
}

// wholeAccount returns what dcm status --json prints when each part was read in time. During a daemon-reload PID 1
// does not answer, and on a busy host a part then exceeds its limit, which the account says.
func (m machine) wholeAccount() (a status.Account) {
	m.t.Helper()
	ctx, cancel := testdeadline.Context(m.t.Context(), waitTimeout)
	defer cancel()
	late := func(u status.Unavailable) bool {
		return slices.ContainsFunc([]string{"timed out", "deadline exceeded", "no answer in time"}, func(why string) bool { return strings.Contains(u.Why, why) })
	}
	for {
		if a = m.account(); ctx.Err() != nil || !slices.ContainsFunc(a.Hidden, late) {
			return a
		}
	}
}

// healthIs checks the state and the exit status of dcm status. One of the problems in that
// state has all of the parts.
func (m machine) healthIs(want status.State, parts ...string) status.Account {
	m.t.Helper()
	a := m.wholeAccount()
	if a.Health.State != want {
		m.t.Errorf("health: want %s, got %s: %+v", want, a.Health.State, a.Problems)
	}
	if len(parts) > 0 && !hasProblem(a, want, parts...) {
		m.t.Errorf("problems: want one in state %s with %q, got %+v", want, parts, a.Problems)
	}
	m.exits(want.Code(), "dcm status", parts...)
	return a
}

// statusTextIs waits until the status text of dcm.service (systemctl status) matches an account.
// The daemon sends that text after it has written its state.
func (m machine) statusTextIs(a status.Account) {
	m.t.Helper()
	m.until(`systemctl show --property=StatusText dcm | grep -F "$1"`, a.Health.Summary)
}

// hasProblem reports whether one of the problems in a state has all of the parts.
func hasProblem(a status.Account, state status.State, parts ...string) bool {
	for _, p := range a.Problems {
		if p.State == state && hasAll(p.Text+" "+p.Hint, parts...) {
			return true
		}
	}
	return false
}

// busError returns the name of the error that a method of the manager returns to a user, or
// "" if it succeeds.
func (m machine) busError(user, call string) string {
	m.t.Helper()
	as := ""
	if user != "" {
		as = "setpriv --reuid=" + user + " --regid=" + user + " --init-groups "
	}
	return m.run("SYSTEMD_LOG_LEVEL=debug " + as + "busctl call " + manager + " " + call +
		` 2>&1 | sed -n 's/.*Got message type=error.* error-name=\([^ ]*\) .*/\1/p' | tail -n 1`)
}

// entry is an entry of the journal. A field that occurs several times is a list.
type entry map[string]any

// has reports whether one of a field's values is this one.
func (e entry) has(field, want string) bool {
	values, ok := e[field].([]any)
	if !ok {
		values = []any{e[field]}
	}
	for _, value := range values {
		if value == want {
			return true
		}
	}
	return false
}

// entries returns this boot's entries that journalctl finds with the arguments, in order.
func (m machine) entries(args string) (all []entry) {
	m.t.Helper()
	text := m.run("journalctl --sync; journalctl --boot --quiet --all --output=json " + args)
	for line := range strings.Lines(text) {
		var e entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			m.t.Fatalf("%v: %q", err, line)
		}
		all = append(all, e)
	}
	return all
}

// newEntries returns a function that returns the entries which were added after this call. It
// counts, since journalctl of systemd 252 skips the first match after a cursor that does not
// match itself.
func (m machine) newEntries(args string) func() []entry {
	m.t.Helper()
	n := len(m.entries(args))
	return func() []entry {
		m.t.Helper()
		return m.entries(args)[n:]
	}
}
