// Package event has the journal events that an administrator may have to act on. journalctl(1)
// finds the explanation of an event in the shipped message catalog by its id.
package event

import (
	"log/slog"

	"dcm/internal/linux/journal"
)

// ID is a MESSAGE_ID, see systemd.journal-fields(7).
type ID string

// The events, with ids made by `systemd-id128 new`. An id never changes.
const (
	RunBegan       ID = "81b7dcd01e0549deb664326c3d5e72c6" // the first change of a run begins
	Applied        ID = "f4b4a2caf4bc4303b49101ea772973d4" // the selected profile is on the GPUs
	RunFailed      ID = "b5eca97f4d7b42cfa74c96037ef21c63" // a run failed, and GPUs may be changed
	RolledBack     ID = "0b4cd347bff5412f8be2fd81b63ff261" // a run failed, and its changes were undone
	InUse          ID = "e1f0e84fafe64099b2c963ed9c76b9e8" // refused: a process has a GPU open
	Refused        ID = "cdd099175e9841d1b03410937e56c2e5" // refused for another reason
	StepFailed     ID = "20a65a35820d49a7843281df470ac9b9" // a mode of one GPU cannot be set
	ReloadFailed   ID = "73757204b6ec410b91a765821204b232" // the driver cannot be reloaded
	ClientNotBack  ID = "af1db68672ac4dd083c2c419a3887ba7" // a client that was active before is not active now
	ConfigRejected ID = "bb4acfe4aeab4957948f5aa12f995ad6" // the configuration is not valid
	Drifted        ID = "86fad252a5d642e7bfbdb9e5b18e961a" // another program has changed the GPUs
	Reserved       ID = "43d3929637f940fb9e7231261ab2e4d4" // the partitions of a reservation were chosen; dcm usage reads it
	LeaseEnds      ID = "e3913814f9354367987e4021699d5882" // a lease is about to end by its time limit
	LeaseCounted   ID = "573eb38cb5314244a95f18f94338cfc8" // the counters of the partitions at the start or end of a lease; dcm usage reads it
	Rebooting      ID = "be45bad6dfc347edb3e1ba11cd87ae4e" // the host is rebooted for a memory mode
	GPULost        ID = "2ddbfbd895a84462b761d27b6bc0a184" // an expected GPU is missing
	GPUBack        ID = "fa360e71e128435d87bac7960fea8232" // a missing GPU is back
)

// Fields returns the journal fields in the event's explanation. If an entry lacks a field,
// journalctl shows the name of the field.
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
	case Reserved:
		return []string{"DCM_RESERVATION", "DCM_PARTITIONS"}
	case LeaseEnds:
		return []string{"DCM_LEASE", "DCM_USER", "DCM_UNTIL"}
	case LeaseCounted:
		return []string{"DCM_LEASE", "DCM_AT"}
	case GPULost, GPUBack:
		return []string{"DCM_GPU"}
	case ClientNotBack:
		return []string{"DCM_UNIT", "DCM_BEFORE", "DCM_NOW"}
	}
	return nil
}

// All returns all events.
func All() []ID {
	return []ID{RunBegan, Applied, RunFailed, RolledBack, InUse, Refused, StepFailed, ReloadFailed, ClientNotBack, ConfigRejected, Drifted, Reserved, LeaseEnds, LeaseCounted, Rebooting, GPULost, GPUBack}
}

// Attr returns the attribute that gives a log entry the event's id.
func (id ID) Attr() slog.Attr { return slog.String(journal.MessageID, string(id)) }
