package watch

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// message joins strings as the kernel does, each with a zero byte at its end.
func message(parts ...string) []byte { return []byte(strings.Join(parts, "\x00") + "\x00") }

func TestParseUevent(t *testing.T) {
	const gpu = "/devices/pci0000:00/0000:00:01.1/0000:05:00.0"
	for name, tt := range map[string]struct {
		message []byte
		want    Uevent // zero: not one
	}{
		"a driver was bound": {
			message("bind@"+gpu, "ACTION=bind", "DEVPATH="+gpu, "SUBSYSTEM=pci", "DRIVER=amdgpu", "PCI_CLASS=120000", "PCI_ID=1002:74A1", "SEQNUM=4711"),
			Uevent{"bind", gpu, "pci"}},
		"a DRM device came": {
			message("add@"+gpu+"/drm/renderD128", "ACTION=add", "DEVPATH="+gpu+"/drm/renderD128", "SUBSYSTEM=drm", "MAJOR=226", "SEQNUM=1"),
			Uevent{"add", gpu + "/drm/renderD128", "drm"}},
		"a module went":               {message("remove@/module/amdgpu", "ACTION=remove", "DEVPATH=/module/amdgpu", "SUBSYSTEM=module", "SEQNUM=2"), Uevent{"remove", "/module/amdgpu", "module"}},
		"made by hand":                {message("change@"+gpu, "ACTION=change", "DEVPATH="+gpu, "SUBSYSTEM=pci", "SYNTH_UUID=0", "SEQNUM=3"), Uevent{"change", gpu, "pci"}},
		"the last pair is not ended":  {[]byte("add@/a\x00SUBSYSTEM=drm"), Uevent{"add", "/a", "drm"}},
		"a value with an equals sign": {message("add@/a", "SUBSYSTEM=a=b"), Uevent{"add", "/a", "a=b"}},
		"udev's":                      {append([]byte("libudev\x00\xfe\xed\xca\xfe"), make([]byte, 40)...), Uevent{}},
		"without a subsystem":         {message("add@/a", "ACTION=add"), Uevent{}},
		"another action":              {message("add@/a", "ACTION=remove", "SUBSYSTEM=drm"), Uevent{}},
		"another path":                {message("add@/a", "DEVPATH=/b", "SUBSYSTEM=drm"), Uevent{}},
		"no path":                     {message("add@", "SUBSYSTEM=drm"), Uevent{}},
		"no action":                   {message("@/a", "SUBSYSTEM=drm"), Uevent{}},
		"no end":                      {[]byte("add@/a"), Uevent{}},
		"empty":                       {nil, Uevent{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := parseUevent(tt.message)
			if !ok {
				got = Uevent{}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || ok != (tt.want != Uevent{}) {
				t.Errorf("parsed %v (-want +got):\n%s", ok, diff)
			}
		})
	}
}

func FuzzUevent(f *testing.F) {
	f.Add(message("bind@/devices/pci0000:00/0000:05:00.0", "ACTION=bind", "SUBSYSTEM=pci"))
	f.Add([]byte("libudev\x00\xfe\xed\xca\xfe"))
	f.Add([]byte("@\x00=\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		u, ok := parseUevent(b)
		if ok && (u.Action == "" || !strings.HasPrefix(u.Path, "/") || u.Subsystem == "" || !strings.HasPrefix(string(b), u.Action+"@"+u.Path+"\x00")) {
			t.Errorf("%q was taken for %+v", b, u)
		}
	})
}
