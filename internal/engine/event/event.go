// Package event names what happens that an operator may have to act on. Each has
// an id by which journalctl(1) finds its explanation, with the hint, in the shipped
// message catalog. The package knows nothing of who logs what.
package event

import (
	"log/slog"

	"dcm/internal/linux/journal"
)

// ID is a MESSAGE_ID, see systemd.journal-fields(7).
type ID string

// The events. Made by `systemd-id128 new`, and never changed.
const (
	RunBegan       ID = "81b7dcd01e0549deb664326c3d5e72c6" // the first change is about to be made
	Applied        ID = "f4b4a2caf4bc4303b49101ea772973d4" // the GPUs are as selected
	RunFailed      ID = "b5eca97f4d7b42cfa74c96037ef21c63" // a run failed, and GPUs may be changed
	RolledBack     ID = "0b4cd347bff5412f8be2fd81b63ff261" // a run failed, and the GPUs are as before
	InUse          ID = "e1f0e84fafe64099b2c963ed9c76b9e8" // refused: a process has a GPU open
	Refused        ID = "cdd099175e9841d1b03410937e56c2e5" // refused for another reason
	StepFailed     ID = "20a65a35820d49a7843281df470ac9b9" // one GPU's mode cannot be set
	ReloadFailed   ID = "73757204b6ec410b91a765821204b232" // the driver cannot be reloaded
	ClientNotBack  ID = "af1db68672ac4dd083c2c419a3887ba7" // a client was active before and is not now
	ConfigRejected ID = "bb4acfe4aeab4957948f5aa12f995ad6" // the configuration has a mistake
	Drifted        ID = "86fad252a5d642e7bfbdb9e5b18e961a" // somebody else has changed the GPUs
	Rebooting      ID = "be45bad6dfc347edb3e1ba11cd87ae4e" // the host is rebooted for a memory mode
)

// Fields are the fields that an event's explanation refers to. A field that an
// entry does not have would stand there by its name.
func (id ID) Fields() []string {
	switch id {
	case RunBegan, Applied:
		return []string{"DCM_PROFILE"}
	case RunFailed, RolledBack, InUse, Refused, Drifted, Rebooting:
		return []string{"DCM_PROFILE", "DCM_ERROR"}
	case StepFailed:
		return []string{"DCM_GPU", "DCM_FROM", "DCM_TO", "DCM_ERROR"}
	case ReloadFailed, ConfigRejected:
		return []string{"DCM_ERROR"}
	case ClientNotBack:
		return []string{"DCM_UNIT", "DCM_BEFORE", "DCM_NOW"}
	}
	return nil
}

// All lists the events.
func All() []ID {
	return []ID{RunBegan, Applied, RunFailed, RolledBack, InUse, Refused, StepFailed, ReloadFailed, ClientNotBack, ConfigRejected, Drifted, Rebooting}
}

// Attr makes a log entry one about the event.
func (id ID) Attr() slog.Attr { return slog.String(journal.MessageID, string(id)) }
