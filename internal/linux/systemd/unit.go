package systemd

import "slices"

// Unit is a unit's state, with the values of org.freedesktop.systemd1(5).
type Unit struct {
	Name       string  // the requested name, which may be an alias; of a template: the name of the instance
	ID         string  // the primary name
	Load       string  // "loaded", "not-found", "masked", "bad-setting", "error"
	Active     string  // "active", "reloading", "inactive", "failed", "activating", "deactivating"
	Sub        string  // "running", "exited", "dead", "auto-restart", …
	Result     string  // of a service's last run: "success", "exit-code", "signal", "timeout", …
	Invocation string  // of the present or the last run, in hexadecimal; "" if it never ran
	Restarts   uint32  // number of automatic restarts (Restart=)
	MainPID    uint32  // of a service; 0 if it does not run
	Job        bool    // a job is queued or running
	Oneshot    bool    // Type=oneshot without RemainAfterExit=; read only if not active
	Failed     Command // the command whose failure made a service fail; zero if unknown
}

// Settled reports whether the unit has no job and is in no transitional state. A service that
// waits for its automatic restart is "activating", see [Unit.Restarting].
func (u Unit) Settled() bool {
	return !u.Job && (u.Stranded() || !slices.Contains([]string{"activating", "deactivating", "reloading", "refreshing"}, u.Active))
}

// Restarting reports whether a service waits for its automatic restart (Restart=). One that fails
// for ever is in this state most of the time.
func (u Unit) Restarting() bool { return u.Sub == "auto-restart" && !u.Job }

// Stranded reports whether the job of an automatic restart ended without a start, since a
// dependency failed (systemd 254 and later). Nothing starts the service then, although it is "activating".
func (u Unit) Stranded() bool { return u.Sub == "auto-restart-queued" && !u.Job }

// Done reports whether a unit is a oneshot whose last run succeeded. Such a unit is inactive.
func (u Unit) Done() bool {
	return u.Oneshot && u.Active == "inactive" && u.Result == "success" && u.Invocation != ""
}

// Up reports whether a unit is active or starting.
func (u Unit) Up() bool {
	return !u.Stranded() && slices.Contains([]string{"active", "activating", "reloading", "refreshing"}, u.Active)
}

func (u Unit) down() bool { return u.Active == "inactive" || u.Active == "failed" }

// Fields selects which fields of units are read. More fields need more calls of PID 1.
type Fields int

const (
	States   Fields = iota // Name, ID, Load, Active, Sub and Job, in one call for all units
	Run                    // and Invocation
	Inactive               // all fields of units that are not active; of others States, and Result of services
	Restarts               // Inactive, and Restarts of active services
	All                    // all fields
)
