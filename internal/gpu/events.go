package gpu

import "slices"

// RelevantEvent reports whether a uevent may mean that a GPU appeared, disappeared, changed
// or got a driver.
func (n *Node) RelevantEvent(subsystem, path string) bool {
	switch subsystem {
	case "pci", "drm":
		return true
	}
	return slices.ContainsFunc(n.bus.vendors, func(v Vendor) bool { return v.RelevantEvent(subsystem, path) })
}

// ModeFiles lists the existing files that modes are written to. The drivers send no uevent
// after a write.
func (n *Node) ModeFiles() []string {
	var all []string
	for _, v := range n.bus.vendors {
		if v.ModeFiles != nil {
			all = append(all, v.ModeFiles()...)
		}
	}
	return all
}

// PollFingerprint returns a text that differs after most changes for which no event exists.
// It covers the vendors that had a GPU at the last scan.
func (n *Node) PollFingerprint() string {
	var text string
	for _, v := range n.bus.selected(n.bus.presentMask.Load()) {
		if v.PollFingerprint != nil {
			text += v.PollFingerprint()
		}
	}
	return text
}

// Dropins returns the text of the drop-ins that the GPUs on the bus need, by unit name.
func (n *Node) Dropins() map[string]string {
	all := make(map[string]string)
	present, err := n.bus.present()
	if err != nil {
		return all // an unreadable bus needs no drop-in
	}
	for _, v := range present {
		if v.Dropins == nil {
			continue
		}
		for unit, text := range v.Dropins() {
			all[unit] += text
		}
	}
	return all
}
