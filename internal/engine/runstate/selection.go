package runstate

// Selection is a selected profile, and how it is put on the GPUs. Only a new selection replaces it, as a whole.
type Selection struct {
	Profile      string `json:"profile"`                 // "" for none
	Rolling      bool   `json:"rolling,omitempty"`       // change one GPU after another
	IgnoreBudget bool   `json:"ignore_budget,omitempty"` // stop more units than the budgets permit
}
