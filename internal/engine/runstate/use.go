package runstate

// Use is what the driver counts of its use that nobody who can be seen accounts for.
// It goes with an error for which there is nobody to blame.
type Use struct {
	Counted bool `json:"counted"`        // the driver tells a use count
	Unseen  int  `json:"unseen"`         // so much of it is nobody's
	Lost    int  `json:"lost,omitempty"` // so many processes the KFD lists that are not to be found
}

// Eased reports whether something has let go of the driver since.
func (u Use) Eased(now Use) bool {
	return u.Counted && !now.Counted || now.Unseen < u.Unseen || now.Lost < u.Lost
}

// IdleSince returns what drivers are known to count when nobody uses them, for a new
// run of this boot. last may be nil.
func IdleSince(last *Run, boot string) map[string]int {
	if last == nil || last.Boot != boot {
		return nil
	}
	return last.Idle
}
