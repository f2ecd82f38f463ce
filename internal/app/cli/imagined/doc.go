// Package imagined lays out a node that this host need not be: GPUs of a model, with a profile. It
// is for the commands that take --node and --free.
package imagined
