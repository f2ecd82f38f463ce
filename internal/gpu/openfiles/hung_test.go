package openfiles

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"dcm/internal/linux/sysfs"
)

// served makes this test binary the server of a FUSE file system in a mount namespace of its own, and
// sharing the process that maps a file of it.
const (
	served  = "DCM_TEST_SERVED"
	sharing = "DCM_TEST_SHARING"
)

func TestServer(t *testing.T) {
	if os.Getenv(served) == "" {
		return
	}
	must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	dir := t.TempDir()
	root := &fs.Inode{}
	server, err := fs.Mount(dir, root, &fs.Options{
		MountOptions: fuse.MountOptions{DirectMount: true, AllowOther: true},
		OnAdd: func(ctx context.Context) {
			root.AddChild("file", root.NewPersistentInode(ctx, &fs.MemRegularFile{Data: make([]byte, 4096)}, fs.StableAttr{}), false)
		},
	})
	must(t, err)
	cmd := exec.Command(os.Args[0], "-test.run=^TestSharer$")
	cmd.Env = append(os.Environ(), sharing+"="+filepath.Join(dir, "file"))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	must(t, cmd.Run())
	must(t, server.Unmount())
}

func TestSharer(t *testing.T) {
	path := os.Getenv(sharing)
	if path == "" {
		return
	}
	fd, err := unix.Open(path, unix.O_RDONLY, 0)
	must(t, err)
	_, err = unix.Mmap(fd, 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
	must(t, err)
	must(t, unix.Close(fd))
	fmt.Println("shared", os.Getpid())
	bufio.NewReader(os.Stdin).ReadString('\n')
}

// A shared mapping on a file system whose server is stopped costs no thread, whatever is scanned how often.
func TestScanMappings_StoppedServer(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can mount a file system")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestServer$")
	cmd.Env = append(os.Environ(), served+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	cmd.Stderr = t.Output()
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	var pid int
	if _, err := fmt.Fscanf(out, "shared %d\n", &pid); err != nil {
		cmd.Process.Kill()
		cmd.Wait()
		t.Skip("no FUSE here:", err)
	}
	must(t, cmd.Process.Signal(syscall.SIGSTOP))
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGCONT)
		in.Close()
		cmd.Wait()
	})
	_, nodes := tree(t)
	threads := func() int {
		t.Helper()
		all, err := sysfs.Numbers("/proc/self/task")
		must(t, err)
		return len(all)
	}
	scan := func() {
		s := NewScan("/proc", nodes, 10*time.Millisecond)
		s.withMappings = true
		s.scan(t.Context(), []int{pid}, largeChunk)
	}
	scan()
	before := threads()
	for range 30 {
		scan()
	}
	if after := threads(); after > before+5 {
		t.Errorf("threads: got %d, %d before", after, before)
	}
}
