package watch

import (
	"bytes"
	"strings"
)

// Uevent is an event of a device, see kobject_uevent_env().
type Uevent struct {
	Action    string // "add", "remove", "bind", "unbind", "change", …
	Path      string // below /sys: "/devices/pci0000:00/…", "/module/amdgpu"
	Subsystem string // "pci", "drm", "module", …
}

// parseUevent parses a message of the kernel: "ACTION@PATH", then pairs "KEY=VALUE", each ended by
// a zero byte. The pairs repeat action and path and must agree with them. udev's messages have
// another form and are refused.
func parseUevent(message []byte) (Uevent, bool) {
	head, rest, ok := bytes.Cut(message, []byte{0})
	action, path, at := strings.Cut(string(head), "@")
	if !ok || !at || action == "" || !strings.HasPrefix(path, "/") {
		return Uevent{}, false
	}
	u := Uevent{Action: action, Path: path}
	for len(rest) > 0 {
		var pair []byte
		pair, rest, _ = bytes.Cut(rest, []byte{0})
		key, value, _ := strings.Cut(string(pair), "=")
		switch {
		case key == "SUBSYSTEM":
			u.Subsystem = value
		case key == "ACTION" && value != action, key == "DEVPATH" && value != path:
			return Uevent{}, false
		}
	}
	return u, u.Subsystem != ""
}
