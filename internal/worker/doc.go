// Package worker groups the packages that run a vendor's library in a separate process: the call with
// a deadline, the reply, and the sandbox in which the library is loaded. They know neither GPUs nor
// vendors. They must not import any group but linux.
package worker
