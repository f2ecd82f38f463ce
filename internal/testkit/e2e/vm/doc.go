// Package vm runs dcm on a real kernel: in virtual machines, with kernel modules that
// stand in for the GPUs and their driver. It offers the same methods as a container of
// package e2e, and in addition power cuts.
//
// It must not know what dcm is: the tests do. Nothing in it runs in `make test`.
package vm
