package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"dcm/internal/gpu/nvml"
	"dcm/internal/gpu/partition"
)

// releases are those of Debian whose non-free section has a libnvidia-ml1, with the branch
// of the driver that it is of.
func releases() map[string]string { return map[string]string{"bookworm": "535.", "trixie": "550."} }

// realLibrary returns the path of the real library of a Debian release. It is fetched into
// the tests' cache, and installed nowhere.
func realLibrary(t *testing.T, release string) string {
	t.Helper()
	cache := os.Getenv("DCM_TEST_CACHE")
	if cache == "" {
		cache = "/var/cache/dcm-test"
	}
	root := filepath.Join(cache, "libnvidia-ml1-"+release)
	if _, err := os.Stat(root); errors.Is(err, fs.ErrNotExist) {
		if err := fetch(t, release, root); err != nil {
			t.Fatal(err)
		}
	}
	found, _ := filepath.Glob(filepath.Join(root, "usr/lib/*/nvidia/current/libnvidia-ml.so.1"))
	if len(found) != 1 {
		t.Fatalf("%s holds %q, want one libnvidia-ml.so.1", root, found)
	}
	return found[0]
}

// fetch unpacks the package of a release into root. apt works in directories of its own,
// with the mirror that the host has for Debian's main section.
func fetch(t *testing.T, release, root string) error {
	mirror, err := debianMirror(t.Context())
	if err != nil {
		return err
	}
	dir := t.TempDir()
	for _, d := range []string{"lists/partial", "archives/partial", "unpacked"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
	sources := fmt.Sprintf("deb [arch=%s signed-by=%s] %s %s non-free\n", runtime.GOARCH, keyring, mirror, release)
	err = errors.Join(os.WriteFile(filepath.Join(dir, "sources.list"), []byte(sources), 0o644), os.WriteFile(filepath.Join(dir, "status"), nil, 0o644), os.MkdirAll(filepath.Dir(root), 0o755))
	if err != nil {
		return err
	}
	apt := []string{"apt-get", "-q"}
	for _, option := range []string{
		"Dir::Etc::SourceList=" + dir + "/sources.list", "Dir::Etc::SourceParts=/dev/null", "Dir::State::Lists=" + dir + "/lists",
		"Dir::State::Status=" + dir + "/status", "Dir::Cache=" + dir, "Dir::Cache::Archives=" + dir + "/archives",
		"APT::Architecture=" + runtime.GOARCH, "APT::Architectures=" + runtime.GOARCH, "APT::Sandbox::User=root",
		"Acquire::Check-Valid-Until=false", // a mirror's snapshot is older than its own validity allows
	} {
		apt = append(apt, "-o", option)
	}
	if err := in(t.Context(), dir, append(slices.Clone(apt), "update")...); err != nil {
		return err
	}
	if err := in(t.Context(), dir, append(apt, "download", "libnvidia-ml1")...); err != nil {
		return err
	}
	packages, _ := filepath.Glob(filepath.Join(dir, "libnvidia-ml1_*.deb"))
	if len(packages) != 1 {
		return fmt.Errorf("apt-get has downloaded %q", packages)
	}
	partial := root + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return err
	}
	if err := in(t.Context(), dir, "dpkg-deb", "-x", packages[0], partial); err != nil {
		return err
	}
	t.Logf("fetched %s", filepath.Base(packages[0]))
	return os.Rename(partial, root)
}

func in(ctx context.Context, dir string, command ...string) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", command[0], err, out)
	}
	return nil
}

// debianMirror is where the host's apt gets Debian's main section from.
func debianMirror(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Identifier: Packages", "Component: main").Output()
	if err != nil {
		return "", fmt.Errorf("apt-get indextargets: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) == 2 && !strings.Contains(f[1], "-") && !strings.HasSuffix(f[0], "-security/") {
			return f[0], nil
		}
	}
	return "", errors.New("this host's apt has no mirror of Debian's main section")
}

// host is a made-up host with the driver's module and without a GPU.
type host struct {
	t             *testing.T
	dir, dev, lib string
}

// newHost makes a host below the tests' cache, where device nodes can be opened, with
// these parameters of the driver's files.
func newHost(t *testing.T, lib, params string) host {
	t.Helper()
	dir, err := os.MkdirTemp(filepath.Dir(strings.SplitAfter(lib, "libnvidia-ml1-")[0]), "host-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	h := host{t, dir, filepath.Join(dir, "dev"), lib}
	driver := filepath.Join(dir, "proc/driver/nvidia")
	err = errors.Join(os.Chmod(dir, 0o755), showCapabilities(filepath.Join(dir, "proc")), os.MkdirAll(filepath.Join(dir, "module/nvidia"), 0o755), os.MkdirAll(filepath.Join(h.dev, "char"), 0o755),
		os.WriteFile(filepath.Join(dir, "module/nvidia/initstate"), []byte("live\n"), 0o644),
		os.WriteFile(filepath.Join(driver, "params"), []byte(params), 0o644),
		os.WriteFile(filepath.Join(driver, "version"), []byte("NVRM version: NVIDIA UNIX x86_64 Kernel Module\n"), 0o644))
	for name, number := range map[string][2]uint32{"null": {1, 3}, "zero": {1, 5}, "full": {1, 7}, "urandom": {1, 9}} {
		err = errors.Join(err, makeNode(h.dev, name, 0o666, number[0], number[1]))
	}
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// parameters are the driver's, as it shows them.
func parameters(uid, gid, mode, modify int) string {
	return fmt.Sprintf("ModifyDeviceFiles: %d\nDeviceFileUID: %d\nDeviceFileGID: %d\nDeviceFileMode: %d\n", modify, uid, gid, mode)
}

// staged is the first argument of this program where it prepares a host and then is
// dcm-nvml there, as a user.
const staged = "--staged"

// stage puts the files of a made-up host in place of this one's, for this process alone,
// and runs dcm-nvml. It returns only with an error.
func stage(dir, user, request string) error {
	uid, err := strconv.Atoi(user)
	if err != nil {
		return err
	}
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	for _, m := range [][2]string{{"dev", "/dev"}, {"proc/driver", "/proc/driver"}, {"proc/devices", "/proc/devices"}, {"module", "/sys/module"}} {
		if err := unix.Mount(filepath.Join(dir, m[0]), m[1], "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("%s: %w", m[1], err)
		}
	}
	if uid != 0 {
		err = errors.Join(syscall.Setgroups(nil), syscall.Setresgid(uid, uid, uid), syscall.Setresuid(uid, uid, uid))
	}
	if err != nil {
		return err
	}
	return syscall.Exec("/proc/self/exe", []string{os.Args[0], "--sys", "/sys", request}, os.Environ())
}

// ask has dcm-nvml answer a request on the host.
func (h host) ask(uid int, r nvml.Request) nvml.Reply {
	h.t.Helper()
	r.Library = h.lib
	request, err := json.Marshal(r)
	if err != nil {
		h.t.Fatal(err)
	}
	cmd := exec.CommandContext(h.t.Context(), os.Args[0], staged, h.dir, strconv.Itoa(uid), string(request))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	var exited *exec.ExitError
	if err != nil && (!errors.As(err, &exited) || exited.ExitCode() != 1) {
		h.t.Fatalf("%v\n%s", err, said.String())
	}
	reply, err := nvml.ParseReply(out)
	if err != nil {
		h.t.Fatalf("%v: %q\n%s", err, out, said.String())
	}
	if len(reply.Missing) > 0 {
		h.t.Errorf("the library lacks %q", reply.Missing)
	}
	return reply
}

// What the real library does to device nodes, where the driver's module is loaded and no
// GPU answers. It reports the status 9 then, after it has made the nodes.
func TestRealLibrary(t *testing.T) {
	if os.Getenv("DCM_NVML") == "" {
		t.Skip("the real libnvidia-ml is tried by make test-nvml, which sets DCM_NVML")
	}
	if os.Getuid() != 0 {
		t.Fatal("the real library is tried as root, who may make device nodes and mounts")
	}
	if _, err := os.Stat("/sys/module/nvidia"); err == nil {
		t.Fatal("this host has NVIDIA's driver, which the library would reach")
	}
	on := true
	look := nvml.Request{Do: nvml.Look, GPUs: []partition.Address{first}}
	run := nvml.Request{Do: nvml.Look, GPUs: []partition.Address{first}, Nodes: true}
	change := nvml.Request{Do: nvml.Mode, GPU: first, On: &on}
	const user = 1000
	for release, branch := range releases() {
		t.Run(release, func(t *testing.T) {
			lib := realLibrary(t, release)
			if file, err := filepath.EvalSymlinks(lib); err != nil || !strings.Contains(filepath.Base(file), ".so."+branch) {
				t.Fatalf("%s, %v: want the branch %s", file, err, branch)
			}
			for _, s := range situations() {
				for _, c := range []struct {
					name    string
					uid     int
					request nvml.Request
					makes   bool
				}{
					{"a look", 0, look, false},
					{"a user's look", user, look, false},
					{"a run's look", 0, run, s.name != "another mode" && s.name != "all nodes"},
					{"a change", 0, change, true},
					{"a user's change", user, change, false},
				} {
					t.Run(s.name+"/"+c.name, func(t *testing.T) {
						h := newHost(t, lib, parameters(0, 44, 0o660, 1))
						if err := s.make(h.dev); err != nil {
							t.Fatal(err)
						}
						before := nodes(t, h.dev)
						want := before
						if c.makes {
							want = demanded(before)
						}
						h.wantAnswer(h.ask(c.uid, c.request), c.uid, want)
						if diff := cmp.Diff(want, nodes(t, h.dev)); diff != "" {
							t.Errorf("below /dev (-want +got):\n%s", diff)
						}
					})
				}
			}
			t.Run("files that the driver leaves alone", func(t *testing.T) {
				h := newHost(t, lib, parameters(0, 44, 0o660, 0))
				if err := makeNode(h.dev, "nvidiactl", 0o666, gpuMajor, 255); err != nil {
					t.Fatal(err)
				}
				want := demanded(nodes(t, h.dev))
				want["nvidiactl"] = "666 0:0 195:255"
				h.wantAnswer(h.ask(0, change), 0, want)
				if diff := cmp.Diff(want, nodes(t, h.dev)); diff != "" {
					t.Errorf("below /dev (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// demanded are the nodes after a change, by those before. Without a GPU the library makes
// no node of one.
func demanded(before map[string]string) map[string]string {
	out := map[string]string{
		"nvidiactl":   "660 0:44 195:255",
		"nvidia-caps": "755 0:0 0:0", "nvidia-caps/nvidia-cap1": "400 0:0 509:1", "nvidia-caps/nvidia-cap2": "444 0:0 509:2",
		"char/195:255": "../nvidiactl", "char/509:1": "../nvidia-caps/nvidia-cap1", "char/509:2": "../nvidia-caps/nvidia-cap2",
	}
	for name, was := range before {
		if out[name] == "" {
			out[name] = was
		}
	}
	return out
}

// wantAnswer checks that the library has answered, with these nodes below /dev.
func (h host) wantAnswer(reply nvml.Reply, uid int, now map[string]string) {
	h.t.Helper()
	kind, status := nvml.NoDriver, uint32(9)
	switch control := now["nvidiactl"]; {
	case control == "":
		kind, status = nvml.NoNodes, 0
	case uid != 0 && !strings.HasPrefix(control, "666 "):
		kind, status = nvml.NoPermission, nvml.StatusNoPermission
	}
	if e := reply.Error; e == nil || e.Kind != kind || status != 0 && e.Status != status || !strings.Contains(e.Text, "nvmlInit_v2") {
		h.t.Errorf("error %+v, want %s (%d)", e, kind, status)
	}
}
