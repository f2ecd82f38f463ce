package config_test

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/config"
	"dcm/internal/engine/config/configtest"
	"dcm/internal/engine/config/source"
	"dcm/internal/sanitize"
	"dcm/internal/testkit/testdeadline"
)

// refusals changes a good tree at its dcm.toml or around it, and has the error that Load
// returns then.
var refusals = []struct {
	name   string
	change func(t *testing.T, file string)
	want   string
}{
	{"group can write", mode(0o664), "/etc/dcm/dcm.toml: unsafe: group or others can write to it (mode 0664). hint: chmod go-w /etc/dcm/dcm.toml"},
	{"world can write", mode(0o646), "/etc/dcm/dcm.toml: unsafe: group or others can write to it (mode 0646). hint: chmod go-w /etc/dcm/dcm.toml"},
	{"FIFO", instead(func(t *testing.T, file string) { configtest.Must(t, syscall.Mkfifo(file, 0o644)) }), "/etc/dcm/dcm.toml: not a regular file (found a FIFO)"},
	{"directory", instead(func(t *testing.T, file string) { configtest.Must(t, os.Mkdir(file, 0o755)) }), "/etc/dcm/dcm.toml: not a regular file (found a directory)"},
	{"device", instead(symlinkTo("/dev/zero")), "/etc/dcm/dcm.toml: not a regular file (found a device)"},
	{"socket", instead(socket), "/etc/dcm/dcm.toml: not a regular file (found a socket)"},
	{"link to nothing", instead(symlinkTo("nothing")), "/etc/dcm/dcm.toml: symbolic link to a file that does not exist"},
	{"link to itself", instead(symlinkTo("dcm.toml")), "/etc/dcm/dcm.toml: cannot read it: too many levels of symbolic links"},
	{"link to a file that others can write to", instead(func(t *testing.T, file string) {
		configtest.Must(t, os.WriteFile(filepath.Dir(file)+"/target", nil, 0o644))
		configtest.Must(t, os.Chmod(filepath.Dir(file)+"/target", 0o666))
		symlinkTo("target")(t, file)
	}), "/etc/dcm/dcm.toml: unsafe: group or others can write to it (mode 0666). hint: chmod go-w /etc/dcm/dcm.toml"},
	{"link into a directory that others can write to", instead(func(t *testing.T, file string) {
		dir := filepath.Dir(file) + "/open"
		configtest.Must(t, os.Mkdir(dir, 0o755))
		configtest.Must(t, os.WriteFile(dir+"/target", nil, 0o644))
		configtest.Must(t, os.Chmod(dir, 0o777|os.ModeSticky))
		symlinkTo("open/target")(t, file)
	}), "/etc/dcm/open: unsafe: group or others can write to it (mode 0777). hint: chmod go-w /etc/dcm/open"},
	{"directory that the group can write to", func(t *testing.T, file string) { configtest.Must(t, os.Chmod(filepath.Dir(file), 0o775)) },
		"/etc/dcm: unsafe: group or others can write to it (mode 0775). hint: chmod go-w /etc/dcm"},
	{"drop-in directory that others can write to", func(t *testing.T, file string) {
		dir := filepath.Dir(file) + "/dcm.toml.d"
		configtest.Must(t, os.Mkdir(dir, 0o755))
		configtest.Must(t, os.WriteFile(dir+"/10.toml", []byte("!"), 0o644))
		configtest.Must(t, os.WriteFile(dir+"/20.toml", []byte("!"), 0o644))
		configtest.Must(t, os.Chmod(dir, 0o757))
	}, "/etc/dcm/dcm.toml.d: unsafe: group or others can write to it (mode 0757). hint: chmod go-w /etc/dcm/dcm.toml.d"},
	{"drop-in directory that is a file", func(t *testing.T, file string) {
		configtest.Must(t, os.WriteFile(filepath.Dir(file)+"/dcm.toml.d", nil, 0o644))
	}, "/etc/dcm/dcm.toml.d: cannot read the directory: not a directory"},
	{"too large", func(t *testing.T, file string) { configtest.Must(t, os.Truncate(file, 10<<20)) }, "/etc/dcm/dcm.toml: too large (found 10485760 bytes, want at most 1 MiB)"},
	{"not UTF-8", func(t *testing.T, file string) {
		configtest.Must(t, os.WriteFile(file, []byte("# käse\n# k\xe4se\n"), 0o644))
	}, "/etc/dcm/dcm.toml:2: not UTF-8 text"},
	{"of another user", func(t *testing.T, file string) { needRoot(t); configtest.Must(t, os.Chown(file, 65534, 65534)) },
		"/etc/dcm/dcm.toml: unsafe: wrong owner (found user 65534, want root). hint: chown root /etc/dcm/dcm.toml"},
	{"in a directory of another user", func(t *testing.T, file string) {
		needRoot(t)
		configtest.Must(t, os.Chown(filepath.Dir(file), 65534, 65534))
	},
		"/etc/dcm: unsafe: wrong owner (found user 65534, want root). hint: chown root /etc/dcm"},
}

func TestLoad_UnsafeFiles(t *testing.T) {
	for _, test := range refusals {
		t.Run(test.name, func(t *testing.T) {
			p := configtest.Files{"etc/dcm/dcm.toml": "version = 1\n"}.Write(t)
			test.change(t, p.Admin)
			if diff := cmp.Diff(test.want, configtest.Complaint(t, p)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLoad_FollowsSafeLinks(t *testing.T) {
	// As a volume of Kubernetes is laid out.
	p := configtest.Files{"etc/dcm/..1/dcm.toml": "[apply]\nreboot = \"once\"\n"}.Write(t)
	dir := filepath.Dir(p.Admin)
	configtest.Must(t, os.Symlink("..1", dir+"/..data"))
	configtest.Must(t, os.Symlink("..data/dcm.toml", p.Admin))
	c, err := config.Load(p)
	if err != nil || c.Reboot != config.Once {
		t.Errorf("got %+v, %v", c, err)
	}
}

func TestLoad_UnsafeEmptyDirectory(t *testing.T) {
	p := configtest.Files{"etc/dcm/dcm.toml.d/README": ""}.Write(t)
	configtest.Must(t, os.Chmod(p.Local, 0o777))
	configtest.Must(t, os.Chmod(filepath.Dir(p.Local), 0o777))
	if _, err := config.Load(p); err != nil {
		t.Error(err)
	}
}

func TestLoad_AsAnotherUser(t *testing.T) {
	info, err := os.Stat("/")
	configtest.Must(t, err)
	r := new(source.Reader)
	if !asAnotherUser(t, func() bool { return r.Trusted(sanitize.Named("/"), info) }) {
		t.Error(r.Problems)
	}
}

func TestLoad_UnreadableAsAnotherUser(t *testing.T) {
	p := configtest.Files{"etc/dcm/dcm.toml": "version = 1\n"}.Write(t)
	configtest.Must(t, os.Chmod(p.Admin, 0))
	want := "/etc/dcm/dcm.toml: cannot read it: permission denied"
	if diff := cmp.Diff(want, asAnotherUser(t, func() string { return configtest.Complaint(t, p) })); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

// asAnotherUser calls f as another user than root, on a thread that ends with the call. The test's directory lets them in.
func asAnotherUser[T any](t *testing.T, f func() T) T {
	t.Helper()
	const nobody = 65534
	if os.Geteuid() != 0 {
		return f()
	}
	configtest.Must(t, os.Chmod(filepath.Dir(t.TempDir()), 0o755))
	result, failed := make(chan T, 1), make(chan syscall.Errno, 1)
	go func() {
		defer close(result) // also where f ends the test
		runtime.LockOSThread()
		// The raw call is for this thread, syscall.Setresuid for the process.
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 {
			failed <- errno
			return
		}
		result <- f()
	}()
	select {
	case v := <-result:
		return v
	case errno := <-failed:
		t.Fatal(errno)
		panic("not reached")
	}
}

func TestLoad_DoesNotBlockOnFIFO(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "dcm.toml")
	configtest.Must(t, syscall.Mkfifo(fifo, 0o644))
	read := make(chan bool)
	go func() {
		_, ok := new(source.Reader).Text(sanitize.Named(fifo))
		read <- ok
	}()
	select {
	case ok := <-read:
		if ok {
			t.Error("it was read")
		}
	case <-testdeadline.After(10 * time.Second):
		t.Error("it waits for a writer")
	}
}

func TestWatched(t *testing.T) {
	want := []string{"/etc/dcm", "/etc/dcm/dcm.toml.d", "/run/dcm/dcm.toml.d", "/usr/lib/dcm/dcm.toml.d"}
	if diff := cmp.Diff(want, config.DefaultPaths("").Watched()); diff != "" {
		t.Errorf("watched (-want +got):\n%s", diff)
	}
}

func mode(m os.FileMode) func(*testing.T, string) {
	return func(t *testing.T, file string) { configtest.Must(t, os.Chmod(file, m)) }
}

// instead puts something else where the file was.
func instead(make func(t *testing.T, file string)) func(*testing.T, string) {
	return func(t *testing.T, file string) {
		configtest.Must(t, os.Remove(file))
		make(t, file)
	}
}

func symlinkTo(target string) func(*testing.T, string) {
	return func(t *testing.T, file string) { configtest.Must(t, os.Symlink(target, file)) }
}

func socket(t *testing.T, file string) {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	configtest.Must(t, err)
	t.Cleanup(func() { configtest.Must(t, syscall.Close(fd)) })
	t.Chdir(filepath.Dir(file)) // the path of a socket has to be short
	configtest.Must(t, syscall.Bind(fd, &syscall.SockaddrUnix{Name: filepath.Base(file)}))
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give a file to another user")
	}
}
