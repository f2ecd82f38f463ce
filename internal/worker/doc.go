// Package worker groups what dcm needs to run a vendor's library in a separate process: the
// call with a deadline, the reply, and the sandbox in which the library is loaded. These packages
// know neither GPUs nor vendors. They must not import any group but linux.
package worker
