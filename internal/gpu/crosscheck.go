package gpu

import "dcm/internal/gpu/partition"

// Observation is the state of a GPU as a source independent of dcm's own reading shows it.
type Observation struct {
	GPU   partition.Address
	Shape partition.Shape // zero if unknown
	Parts int             // number of partitions; -1 if unknown
}

// CrossCheck is the result of one vendor's cross-check, which the self-test compares with what
// dcm reads itself.
type CrossCheck struct {
	Source       string              // name of the source
	GPUs         []partition.Address // that the source is about: those of the vendor
	Observations []Observation
	Err          error // why observations are missing
}
