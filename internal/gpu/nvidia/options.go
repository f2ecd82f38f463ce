package nvidia

import "time"

// settings are the options of the vendor.
type settings struct {
	client          client
	conflictingUnit func() string // unit that also configures MIG, "" if none
	createNodes     bool          // a read may create missing device nodes
	reuseReply      bool          // see [ReuseReply]
}

// Option configures the vendor.
type Option func(*settings)

// Program sets the path of dcm-nvml, the library that it loads ("" for the usual places) and
// its first arguments.
func Program(path, library string, args ...string) Option {
	return func(s *settings) { s.client = client{path, args, library, s.client.timeout} }
}

// RequestTimeout sets the timeout of a request. The default is 30 s for a read and 2 min for
// a change.
func RequestTimeout(d time.Duration) Option { return func(s *settings) { s.client.timeout = d } }

// ConflictingUnit sets a function that returns an enabled or running unit that also configures MIG,
// "" for none. While the function returns a unit, dcm changes nothing.
func ConflictingUnit(name func() string) Option {
	return func(s *settings) { s.conflictingUnit = name }
}

// CreateNodes permits a read to create missing device nodes. Only a run, which changes the GPUs,
// uses it. Any other read must not create nodes.
func CreateNodes() Option { return func(s *settings) { s.createNodes = true } }

// ReuseReply permits the first read after a change to use what the change has read back, if both are about
// the same GPU. The caller excludes other changes. Each call of dcm-nvml loads the library.
func ReuseReply() Option { return func(s *settings) { s.reuseReply = true } }
