// Package drain keeps new leases from being granted while a command waits for the end of all
// leases.
//
// It must not import frontends or app.
package drain
