// Package sandbox is for the programs of dcm that load a vendor's library, each
// of which answers one request and ends. It has the two things that they share:
//
//   - [Loader] loads a library, and what that needs, from files that nobody but
//     root, or whoever runs the program, can have put there;
//   - [Rights.Reexec] and [Rights.InstallSeccomp] take from the process, before any of the
//     library's code runs, what a question about a GPU does not need.
//
// It knows no vendor, no library by name and no GPU, and it calls no C: how a file
// is loaded is handed in.
//
// It is not a wall around hostile code of root's own: a library that sets modes
// runs as uid 0, and what belongs to root is open to it, if it has no capability too.
package sandbox
