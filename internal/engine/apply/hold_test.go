package apply

import (
	"os"
	"os/exec"
	"testing"
)

// holdOpen passes the open file to another process, and closes it in this one.
func holdOpen(t *testing.T, f *os.File) (pid int) {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	cmd.ExtraFiles = []*os.File{f}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f.Close()
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd.Process.Pid
}
