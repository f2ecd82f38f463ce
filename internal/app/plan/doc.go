// Package plan compares a profile with the GPUs of this host and with the reservations, and returns
// the steps and the units that a change would restart.
//
// It changes nothing. It must not import service or cli.
package plan
