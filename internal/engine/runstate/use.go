package runstate

// Use is the use of a driver that no visible process explains. An error has it if the driver is
// busy and no holder is visible.
type Use struct {
	Vendor  string `json:"vendor,omitempty"` // "amd" or "nvidia": whose driver it is
	Counted bool   `json:"counted"`          // the driver has a use count
	Unseen  int    `json:"unseen"`           // part of the use count that no process explains
	Lost    int    `json:"lost,omitempty"`   // number of processes that the driver lists and that do not exist
}

// Eased reports whether the use of the driver has fallen.
func (u Use) Eased(now Use) bool {
	return u.Counted && !now.Counted || now.Unseen < u.Unseen || now.Lost < u.Lost
}

// IdleSince returns the use counts of the idle drivers, for a new run of this boot. last may be
// nil.
func IdleSince(last *Run, boot string) map[string]int {
	if last == nil || last.Boot != boot {
		return nil
	}
	return last.Idle
}
