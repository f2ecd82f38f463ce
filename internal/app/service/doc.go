// Package service puts together what systemd runs: the daemon, the oneshot, the choice of
// partitions and the generator. Each returns an exit status and prints nothing.
//
// Read server.go for the daemon and oneshot.go for the oneshot.
package service
