// Package reservation reads the reservations of a host: those of the configuration, the partitions
// that dcm-reserve.service chose for them, whether that choice is outdated, and the slices of their
// units.
//
// It chooses no partition and changes nothing. It must not import frontends or app.
package reservation
