// Package status holds the status of a host as one value: the profile, the GPUs and their
// partitions, the clients, the units, the processes that have a GPU open, the last run, and
// the problems. [Gather] gathers it in one pass, and only [Evaluate] judges it. Every
// frontend renders an [Account] and reads nothing else.
//
// The JSON form is described in dcm-account(5). Within a version, fields are added and none
// is changed or removed.
//
// The package changes nothing and must not know vendors: its callers pass functions that
// read the parts. A part that cannot be read is reported as hidden, never as absent.
package status
