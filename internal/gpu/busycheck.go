package gpu

// BusyCheck is what a driver checks before it changes one GPU.
type BusyCheck string

// The checks.
const (
	BusyCheckUnknown BusyCheck = ""     // there is no evidence yet
	BusyCheckGPU     BusyCheck = "gpu"  // no process may use this GPU
	BusyCheckNode    BusyCheck = "node" // no process may use any GPU of the driver
)

// String describes the check for a message.
func (c BusyCheck) String() string {
	switch c {
	case BusyCheckGPU:
		return "a process blocks a change of the GPUs that it uses"
	case BusyCheckNode:
		return "a process on any GPU blocks a change of every GPU (older driver)"
	}
	return "unknown until the first change while a process uses another GPU"
}
