package rule

import "dcm/internal/gpu/partition"

// Allocation is the rule of the memory allocation of AMD's partitions.
func Allocation() Rule { return OneOf("a memory allocation", partition.Allocations()...) }
