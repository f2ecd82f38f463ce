// Package vm boots virtual machines with a real kernel, and with kernel modules that stand in for the GPUs
// and their driver. A machine has the methods of a container of package e2e, and can lose its power.
//
// The package is independent of dcm. `make test` does not use it.
package vm
