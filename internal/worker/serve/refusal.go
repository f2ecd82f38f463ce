package serve

// Refusal is a system call of a library that the sandbox refused.
type Refusal struct {
	Number int32  `json:"number"`          // of the call on this architecture
	First  uint64 `json:"first,omitempty"` // first argument if it is small, such as the family of a socket
	Count  int    `json:"count"`
}
