// Package nodemodel simulates a node in memory: GPUs of a model with a profile. It is for the
// options --node and --free.
package nodemodel
