package sanitize

import "path/filepath"

// Name is the name of something outside, of a file mostly: as it is for whoever
// opens it, and escaped for whoever tells of it.
type Name struct{ raw string }

// Named takes a name in.
func Named(raw string) Name { return Name{raw} }

// Raw is the name as it is. It is for calls of the system alone, never for text.
func (n Name) Raw() string { return n.raw }

// Join is the name of an entry in the directory of that name.
func (n Name) Join(entry string) Name { return Name{filepath.Join(n.raw, entry)} }

// Dir is the directory that the file is in.
func (n Name) Dir() Name { return Name{filepath.Dir(n.raw)} }

func (n Name) String() string { return Text(n.raw) }

// GoString keeps %#v from showing more than the others.
func (n Name) GoString() string { return n.String() }

// MarshalText is the escaped name, in JSON say.
func (n Name) MarshalText() ([]byte, error) { return []byte(n.String()), nil }
