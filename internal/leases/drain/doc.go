// Package drain stops the granting of new leases while a command waits for the end of leases,
// as dcm apply --when-idle does.
//
// It must not import frontends or app.
package drain
