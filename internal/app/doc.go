// Package app groups what puts the other groups together: the host with its paths, the
// services that systemd runs, the commands, the self-test and the container image. The
// programs in cmd import it. These packages must not import testkit outside of tests.
package app
