package gather

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"dcm/internal/engine/host"
	"dcm/internal/frontends/status"
	"dcm/internal/gpu"
	"dcm/internal/linux/procstat"
)

func TestProcessFinder(t *testing.T) {
	h := &host.Host{Root: t.TempDir()}
	for _, pid := range []string{"7", "8", "9"} {
		if err := os.MkdirAll(filepath.Join(h.Root, "proc", pid), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(h.Root, "proc/9/cgroup"), []byte("0::/dcm.slice/b.service\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	stat := "7 (python3) S" + strings.Repeat(" 0", 18) + " 100 0\n"
	if err := os.WriteFile(filepath.Join(h.Root, "proc/7/stat"), []byte(stat), 0o644); err != nil {
		t.Fatal(err)
	}
	began := procstat.Started(filepath.Join(h.Root, "proc/7")).Truncate(time.Second)
	c := processFinder{host: h, users: make(map[uint32]string), starts: make(map[int]time.Time), holders: []gpu.Holder{
		{PID: 7, Command: "python3", Unit: "a.service", Devices: []string{"/dev/kfd", "/dev/dri/renderD129"}},
		{PID: 8, Command: "card", Devices: []string{"/dev/dri/card9"}},
		{PID: 12, Command: "elsewhere", Devices: []string{"/dev/dri/renderD130"}},
	}}
	little, much := uint64(1), uint64(2)
	got := c.of(status.Part{RenderNode: "/dev/dri/renderD129", Card: "/dev/dri/card9"}, []gpu.Process{{PID: 7, Bytes: 1}, {PID: 9, Bytes: 2}, {PID: 11, Bytes: 1}})
	me := host.UserOrID("0")
	if os.Getuid() != 0 {
		me = c.user(7)
	}
	want := []status.Process{
		{PID: 9, Unit: "b.service", User: me, Memory: &much}, // its open files are not known
		{PID: 7, Command: "python3", Unit: "a.service", User: me, Since: began, Memory: &little},
		{PID: 11, Memory: &little}, // a process that has ended
		{PID: 8, Command: "card", User: me},
	}
	if d := cmp.Diff(want, got, cmpopts.EquateApproxTime(2*time.Second)); d != "" { // the start is relative to the clock
		t.Errorf("processes (-want +got):\n%s", d)
	}
	if got := c.of(status.Part{RenderNode: "/dev/dri/renderD131"}, nil); len(got) != 0 {
		t.Errorf("processes of an unused partition: %+v", got)
	}
}
