package status

import "time"

// Queued is a request that waits for a lease.
type Queued struct {
	Position   int       `json:"position"` // from 1
	ID         int       `json:"id"`       // the process that waits
	UID        uint32    `json:"uid"`
	User       string    `json:"user"`            // the name of the UID, or its number
	Partitions int       `json:"partitions"`      // requested; 0 if whole GPUs are
	GPUs       int       `json:"gpus"`            // whole GPUs requested
	Names      []string  `json:"names,omitempty"` // the GPUs or partitions requested by name; empty for any
	Make       string    `json:"make,omitempty"`  // MIG profile or compute mode that is created for the lease; "" for none
	Exclusive  bool      `json:"exclusive"`
	Share      int       `json:"share"` // how many may share a partition; 0 for a lease that is not shared
	Time       float64   `json:"time"`  // time limit of the lease in seconds; 0 for none
	Since      time.Time `json:"since"`
	Reason     string    `json:"reason"` // why it waits
}

// Lease is a lease that has not ended.
type Lease struct {
	Lease      string       `json:"lease"` // the name of its unit
	UID        uint32       `json:"uid"`
	User       string       `json:"user"`    // the name of the UID
	Command    string       `json:"command"` // the program without its arguments
	Partitions List[string] `json:"partitions"`
	Exclusive  bool         `json:"exclusive"`
	Share      int          `json:"share"` // how many may share a partition; 0 for a lease that is not shared
	Since      time.Time    `json:"since"`
	Until      *time.Time   `json:"until"` // its end by its time limit; nil for no limit
}
