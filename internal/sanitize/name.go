package sanitize

import "path/filepath"

// Name is an external name, usually of a file. System calls get it raw; text gets it
// escaped.
type Name struct{ raw string }

// Named returns the Name of a raw name.
func Named(raw string) Name { return Name{raw} }

// Raw returns the raw name. It is for system calls only, never for text.
func (n Name) Raw() string { return n.raw }

// Join returns the name of an entry of the directory.
func (n Name) Join(entry string) Name { return Name{filepath.Join(n.raw, entry)} }

// Dir returns the directory of the file.
func (n Name) Dir() Name { return Name{filepath.Dir(n.raw)} }

func (n Name) String() string { return Text(n.raw) }

// GoString makes %#v print the escaped name.
func (n Name) GoString() string { return n.String() }

// MarshalText returns the escaped name, for example in JSON.
func (n Name) MarshalText() ([]byte, error) { return []byte(n.String()), nil }
