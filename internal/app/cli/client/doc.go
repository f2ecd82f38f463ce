// Package client reads what commands show: from the daemon, or from the host if no daemon answers.
// It prints nothing.
package client
