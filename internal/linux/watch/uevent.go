package watch

import (
	"bytes"
	"strings"
)

// Uevent is what the kernel tells about a device, see kobject_uevent_env().
type Uevent struct {
	Action    string // "add", "remove", "bind", "unbind", "change", …
	Path      string // below /sys: "/devices/pci0000:00/…", "/module/amdgpu"
	Subsystem string // "pci", "drm", "module", …
}

// parseUevent reads one message of the kernel: "ACTION@PATH", then "KEY=VALUE"
// pairs, each ended by a zero byte. The pairs repeat the first line, and have to
// agree with it. udev's own messages, of another form, are not the kernel's.
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
