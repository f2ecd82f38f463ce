package lease

// machine implements all parts of a [Host].
type machine interface {
	Partitions
	Scopes
	Processes
	Protection
}

func hostOf(m machine) Host { return Host{m, m, m, m} }

func newAllocator(m machine) *Allocator { return New(Config{Host: hostOf(m)}) }
