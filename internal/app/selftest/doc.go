// Package selftest judges observations of a node's GPUs, made in their current modes or while
// they were taken through all modes. It compares the sources with each other, with what is
// expected, and with the simulator's claims.
//
// It neither reads nor changes a GPU: it gets the observations, and its caller carries out
// [Targets] like any other change.
package selftest
