package packaging_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"dcm/internal/testkit/sim"
	"dcm/internal/testkit/sim/simtest"
)

// otherHost runs the kit in namespaces of its own, with the name of another host, with the
// /sys and /dev of a directory, and without systemd. A process has a GPU open.
const otherHost = `set -e
node=$1 kit=$2 to=$3 tmp=$4
echo secretbox >/proc/sys/kernel/hostname
mount -t tmpfs tmpfs "$tmp"
cp -a /dev/null /dev/zero /dev/urandom "$tmp"
cp "$(command -v sleep)" "$tmp/zanzibarjob"
if [ -e "$node/dev/kfd" ]; then
	touch "$tmp/kfd"
	mkdir "$tmp/dri"
	mount --bind "$node/dev/kfd" "$tmp/kfd"
	mount --rbind "$node/dev/dri" "$tmp/dri"
fi
mount --rbind "$node/sys" /sys
if [ -d /run/systemd ]; then mount -t tmpfs tmpfs /run/systemd; fi
mount --rbind "$tmp" /dev
job=
if [ -e /dev/dri/renderD128 ]; then
	/dev/zanzibarjob 600 9<>/dev/dri/renderD128 >/dev/null 2>&1 &
	job=$!
fi
code=0
"$kit/run.sh" "$to" || code=$?
[ -z "$job" ] || kill "$job"
exit "$code"
`

// builtKit builds the kit of this machine and unpacks it.
func builtKit(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("skipped with -short: it builds the programs")
	}
	if os.Geteuid() != 0 {
		t.Skip("skipped: namespaces for another host need root")
	}
	dir := t.TempDir()
	build := exec.Command("./kit.sh", runtime.GOARCH)
	build.Env = append(os.Environ(), "VERSION=1.2.3", "DIST="+dir, "SOURCE_DATE_EPOCH=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	name := "dcm-hardware-kit-1.2.3-" + runtime.GOARCH
	if out, err := exec.Command("tar", "-C", dir, "-xzf", filepath.Join(dir, name+".tar.gz")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(dir, name)
}

// runKit runs the kit where a directory has /sys and /dev. It returns the exit status, the
// output and the files of the result.
func runKit(t *testing.T, kit, node string) (int, string, map[string]string) {
	t.Helper()
	to := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--uts", "--propagation", "private", "sh", "-c", otherHost, "sh", node, kit, to, t.TempDir())
	cmd.Env = append(os.Environ(), "SUDO_USER=alicesmith")
	out, err := cmd.CombinedOutput()
	exit, failed := errors.AsType[*exec.ExitError](err)
	if err != nil && !failed {
		t.Fatal(err)
	}
	code := 0
	if failed {
		code = exit.ExitCode()
	}
	found, _ := filepath.Glob(filepath.Join(to, "*.tar.gz"))
	if len(found) == 0 {
		return code, string(out), nil
	}
	return code, string(out), unpacked(t, found[0])
}

// unpacked returns the files of an archive. Nothing in it, headers included, may have a name.
func unpacked(t *testing.T, archive string) map[string]string {
	t.Helper()
	packed, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	zip, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(zip)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"secretbox", "alicesmith", "zanzibar", "PCB0"} {
		if bytes.Contains(bytes.ToLower(all), bytes.ToLower([]byte(secret))) || strings.Contains(archive, secret) {
			t.Errorf("the result has %s", secret)
		}
	}
	files := make(map[string]string)
	for r := tar.NewReader(bytes.NewReader(all)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(path.Clean(h.Name), "/")
		files[name] = string(text)
	}
}

func TestKit(t *testing.T) {
	kit := builtKit(t)
	t.Run("simulated node", func(t *testing.T) { kitOnNode(t, kit) })
	t.Run("no GPU", func(t *testing.T) { kitWithoutGPU(t, kit) })
}

func kitOnNode(t *testing.T, kit string) {
	n := simtest.Start(t, "mi300x-8", sim.Options{})
	code, out, files := runKit(t, kit, n.Mount)
	if code != 0 || !strings.Contains(out, "The result is ") {
		t.Fatalf("exit status %d: %s", code, out)
	}
	for name, want := range map[string]string{
		"CONTENTS.txt": "hardware kit", "host.txt": "systemd: does not run", "plan-cpx-nps4.txt": "request NPS4 for 8 GPUs", "steps.txt": "record.txt: exit status 0",
		"selftest/result.json": `"checks"`, "selftest.txt": "processes that have a GPU open: 1", "nodes-after.txt": "/dev/dri/renderD128", "profiles.txt": "cpx-nps4", "check.txt": "cpx-nps4",
	} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s has no %q:\n%s", name, want, files[name])
		}
	}
	if files["nodes-before.txt"] != files["nodes-after.txt"] {
		t.Errorf("the device nodes changed")
	}
	for _, g := range n.State().GPUs {
		if len(g.Writes) > 0 {
			t.Errorf("%s: the kit wrote %v", g.Address, g.Writes)
		}
	}
	file := filepath.Join(t.TempDir(), "record.json")
	if err := os.WriteFile(file, []byte(files["record.json"]), 0o644); err != nil {
		t.Fatal(err)
	}
	if k, err := sim.LookupKind(file); err != nil || len(k.Boards) != 8 || k.Boards[0].Chip.Product != "AMD Instinct MI300X OAM" {
		t.Errorf("the record is %+v, %v", k, err)
	}
}

func kitWithoutGPU(t *testing.T, kit string) {
	node := t.TempDir()
	for _, dir := range []string{"sys/bus/pci/devices", "dev"} {
		if err := os.MkdirAll(filepath.Join(node, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	code, out, files := runKit(t, kit, node)
	if code != 3 || !strings.Contains(out, "no GPU of AMD or NVIDIA found") || files != nil {
		t.Errorf("exit status %d: %s", code, out)
	}
	if err := os.WriteFile(filepath.Join(kit, "ARCH"), []byte("vax\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, out, _ := runKit(t, kit, node); code != 1 || !strings.Contains(out, "use the kit for") {
		t.Errorf("another machine: exit status %d: %s", code, out)
	}
}
