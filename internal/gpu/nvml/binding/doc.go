// Package binding calls NVIDIA's libnvidia-ml by dlopen, without cgo. Only cmd/dcm-nvml
// imports it: the library can abort, hang and leak, and that program is run with a
// deadline and then gone. It answers one request of package nvml through [Serve].
//
// The functions and structures are declared here by themselves, from what is documented
// about them. A function that a version of the library lacks is an error where it is
// needed, and a note where it only tells something. What a structure has is read from a
// buffer larger than any version of it.
//
// The library makes device nodes and loads the driver where there is none. So nothing of
// it is loaded before the driver is.
//
// It does not know what a profile of dcm's is, nor whether a change is wise.
package binding
