package lease

import "dcm/internal/gpu/partition"

// CommonNode is the device node that a user of a partition has to open in addition to the
// partition's own nodes, unless the partition names others.
const CommonNode = "/dev/kfd"

// MayNeedCommonNode reports whether a holder of such partitions may have to open [CommonNode].
func MayNeedCommonNode(s partition.Criteria) bool { return s.MayMatch(partition.AMD) }
