// Package binding calls NVIDIA's libnvidia-ml through dlopen, without cgo. Only cmd/dcm-nvml
// imports it, because the library can abort, hang and leak, and that program runs with a
// timeout and ends after one request. It executes one request of package nvml through
// [Serve].
//
// The functions and structures are declared from their documentation. A function that a
// version of the library lacks is an error if it is needed, and otherwise a note. Every
// structure is read from a buffer larger than any version of it.
//
// The library creates device nodes and loads a missing driver. So this package loads the
// library only after the driver.
//
// It knows neither dcm's profiles nor whether a change is sensible.
package binding
