// Package sandbox confines the programs of dcm that load a vendor's library. Each of them
// handles one request and exits.
//
//   - [Loader] loads a library and its dependencies, from files that only root, or the user of
//     the program, can have written.
//   - [Rights.Reexec] and [Rights.InstallSeccomp] drop privileges that requests about GPUs do
//     not need, before any code of the library runs.
//
// The package knows no vendor, library or GPU, and calls no C: the caller passes the function
// that loads a file.
//
// It does not confine hostile code of root: a library that sets modes runs as uid 0 and can
// open root's files, although without capabilities.
package sandbox
