package gpu

import "slices"

// Watch describes where changes of the GPUs show. The drivers report some of them by uevents, some
// through files, and some not at all.
type Watch struct{ bus *bus }

// RelevantEvent reports whether a uevent may mean that a GPU appeared, disappeared, changed
// or got a driver.
func (w Watch) RelevantEvent(subsystem, path string) bool {
	switch subsystem {
	case "pci", "drm":
		return true
	}
	return slices.ContainsFunc(w.bus.vendors, func(v Vendor) bool { return v.RelevantEvent(subsystem, path) })
}

// ModeFiles lists the existing files that modes are written to. The drivers send no uevent
// after a write.
func (w Watch) ModeFiles() []string {
	var all []string
	for _, v := range w.bus.vendors {
		if v.ModeFiles != nil {
			all = append(all, v.ModeFiles()...)
		}
	}
	return all
}

// PollFingerprint returns a text that differs after most changes for which no event exists.
// It covers the vendors that had a GPU at the last scan.
func (w Watch) PollFingerprint() string {
	var text string
	for _, v := range w.bus.selected(w.bus.presentMask.Load()) {
		if v.PollFingerprint != nil {
			text += v.PollFingerprint()
		}
	}
	return text
}
