// Package status defines the status of a host as one value, the account: the profile, the GPUs and
// their partitions, the clients, the units, the processes that have a GPU open, the last run, and the
// problems. [Gather] reads its parts, and only [Evaluate] determines the health. Every frontend
// renders an [Account] and reads nothing else.
//
// dcm-account(5) describes the JSON form. Within a version, fields are added, but never changed or
// removed.
//
// The package changes nothing and must not know vendors: its callers pass functions that read the
// parts. A part that cannot be read is reported as hidden, never as absent.
package status
