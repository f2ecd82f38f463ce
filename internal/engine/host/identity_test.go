package host

import (
	"os"
	"path/filepath"
	"testing"

	"dcm/internal/engine/runstate"
)

// In a container, a service with its own /proc reads another boot id than a command. The daemon still
// takes the note of the command, once.
func TestSigned_OtherBootID(t *testing.T) {
	h := &Host{Root: t.TempDir()}
	path := h.Path("proc/sys/kernel/random/boot_id")
	for _, dir := range []string{filepath.Dir(path), h.Runtime()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	boot := func(id string) {
		if err := os.WriteFile(path, []byte(id), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	boot("a58c6d56-9c19-4cb3-be0e-ec31e3285596\n")
	asked := h.Asked([]string{"dcm", "apply", "--rolling"})
	asked.Rolling = true
	if err := h.Note(asked); err != nil {
		t.Fatal(err)
	}
	boot("b744cf2f-4dd4-4d58-9be7-1930b8b4c1e8\n")
	if got, err := h.Signed(&runstate.Who{PID: asked.Who.PID + 1}); err != nil || got.Why != "" {
		t.Errorf("for another process: note %+v, error %v; want none", got, err)
	}
	if got, err := h.Signed(asked.Who); err != nil || !got.Rolling || got.Why != "dcm apply --rolling" {
		t.Errorf("note %+v, error %v", got, err)
	}
	if got, err := h.Signed(nil); err != nil || got.Why != "" {
		t.Errorf("second note %+v, error %v; want none", got, err)
	}
}
