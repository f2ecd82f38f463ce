// Package reservation reads the reservations of a host: what the configuration reserves, what the
// last run has chosen for it, whether the choice is stale, and in which slices the units run.
//
// It chooses no partition and changes nothing. It must not import frontends or app.
package reservation
