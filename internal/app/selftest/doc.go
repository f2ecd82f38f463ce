// Package selftest judges what was seen of a node's GPUs while they were looked at, or
// taken through their modes: whether all who can see a GPU see the same, whether what is
// to be there is there, and how what was seen differs from what the simulator claims.
//
// It looks at nothing and changes nothing: what was seen is handed to it, and what is to
// be done, [Targets], is carried out by others, in the same way as any change.
package selftest
