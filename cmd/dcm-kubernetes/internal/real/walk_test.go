package real_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/layout"

	client "dcm/cmd/dcm-kubernetes/internal/agent"
	"dcm/cmd/dcm-kubernetes/internal/standin"
)

// TestWalk runs the commands of packaging/kubernetes/README.md with the real kubectl, image build and
// DaemonSet controller. Simulated are the registry with the copy to it, the scheduler, the kubelets
// and the GPUs.
func TestWalk(t *testing.T) {
	w := bareWorld(t, extra{controllers: []string{"garbage-collector-controller", "namespace-controller"},
		server: []string{"--feature-gates=DRADeviceTaints=true,DRADeviceTaintRules=true", "--runtime-config=resource.k8s.io/v1beta2=true"}})
	w.plugin()
	w.operands()
	three := []string{"n1", "n2", "n3"}
	for _, name := range three {
		w.host(name)
	}
	// Most nodes have neither GPUs nor dcm.
	w.lacks = make(map[string]bool)
	for _, name := range []string{"c1", "c2", "c3", "c4"} {
		w.join(name, func() client.Account { return client.Account{} })
		w.lacks[name] = true
	}
	kubelets := &kubelets{world: w, top: checkout(t)}
	w.begin = kubelets.start
	go w.watch(w.ctx, "/api/v1/namespaces/dcm/configmaps", kubelets.mount)
	w.play()
	w.until("the plugin", three, func(o object) bool { return sub(o, "status", "allocatable")["amd.com/gpu"] == "8" })
	for _, name := range three {
		w.job("job-"+name, name)
	}
	before, bin := w.installed(), t.TempDir()
	write(t, filepath.Join(bin, "skopeo"), "#!/bin/sh\n[ \"$1 $2\" = 'copy --all' ] && [ \"${3%%:*}\" = oci ] && [ \"${3##*:}\" = 0.1.0 ] && from=\"${3#oci:}\" && cp -r \"${from%:*}\" "+filepath.Join(bin, "registry")+"\n")
	if err := os.Chmod(filepath.Join(bin, "skopeo"), 0o755); err != nil {
		t.Fatal(err)
	}
	kubelets.registry = filepath.Join(bin, "registry")
	var said strings.Builder
	for _, command := range walk(t, "Walkthrough") {
		said.WriteString(kubelets.shell(bin, command))
	}
	for _, want := range []string{"the GPUs match cpx-nps4", "SuccessfullyPartitioned", "success", "daemon set \"dcm-kubernetes\" successfully rolled out"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("output without %q", want)
		}
	}
	w.free()
	for _, name := range three {
		if wrong := w.wrong(name); wrong != nil || w.divided(name) != 64 {
			t.Errorf("%s: %q, %d partitions", name, wrong, w.divided(name))
		}
	}
	if w.most > 3 {
		t.Errorf("%d nodes concurrently", w.most)
	}
	t.Run("pools", func(t *testing.T) {
		for _, command := range walk(t, "Pools") {
			kubelets.shell(bin, command)
		}
		w.mu.Lock()
		w.now, w.most = 0, 0
		w.mu.Unlock()
		for _, name := range three[:2] {
			w.label(name, "spx")
		}
		w.until("success", three[:2], applied("spx", "success"))
		w.free()
		if w.most != 1 {
			t.Errorf("%d nodes of the pool concurrently", w.most)
		}
	})
	t.Run("NVIDIA", func(t *testing.T) {
		w.simulate("n4", standin.NewH100())
		w.operated("n4")
		w.mark("n4", "deviceconfig.org/agent", "true")
		w.until("the plugin", []string{"n4"}, func(o object) bool { return sub(o, "status", "allocatable")["nvidia.com/gpu"] == "8" })
		for _, command := range walk(t, "NVIDIA") {
			kubelets.shell(bin, command)
		}
		w.until("success", []string{"n4"}, chosen("halves", "success"))
		w.free()
		if wrong := w.wrong("n4"); wrong != nil {
			t.Errorf("n4: %q", wrong)
		}
	})
	t.Run("uninstall", func(t *testing.T) { kubelets.uninstalled(t, bin, before, append(three, "n4")) })
}

// shell runs commands in the checkout. bin is the home directory, and has further programs.
func (k *kubelets) shell(bin, command string) string {
	k.t.Helper()
	k.t.Logf("$ %s", strings.ReplaceAll(command, "\n", "\n  "))
	cmd := exec.CommandContext(k.ctx, "bash", "-eu", "-o", "pipefail", "-c", command)
	cmd.Dir = k.top
	cmd.Env = append(os.Environ(), "PATH="+cache()+":"+bin+":"+os.Getenv("PATH"), "KUBECONFIG="+filepath.Join(k.dir, "kubeconfig"), "HOME="+bin,
		"VERSION=0.1.0", "REGISTRY=registry.example.org", "SOURCE_DATE_EPOCH=1", "GOCACHE="+env(k.t, "GOCACHE"), "GOMODCACHE="+env(k.t, "GOMODCACHE"))
	out, err := cmd.CombinedOutput()
	k.t.Logf("%s", out)
	if err != nil {
		k.t.Fatal(err)
	}
	return string(out)
}

// walk returns the blocks of commands in a section of the README.
func walk(t *testing.T, section string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(manifests, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n## "+section+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var blocks []string
	block := false
	for line := range strings.Lines(section) {
		command, is := strings.CutPrefix(line, "    ")
		switch {
		case is && block:
			blocks[len(blocks)-1] += command
		case is:
			blocks = append(blocks, command)
		}
		block = is
	}
	if !ok || len(blocks) == 0 {
		t.Fatalf("the README has no commands: %q", blocks)
	}
	return blocks
}

// checkout returns a copy of the repository in which the commands run.
func checkout(t *testing.T) string {
	t.Helper()
	top := t.TempDir()
	cmd := exec.Command("sh", "-c", `cd ../../../.. && git -c safe.directory="$PWD" ls-files -z --cached --others --exclude-standard | tar -c --null --files-from=- | tar -x -C "$1"`, "sh", top)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cannot copy the repository: %v\n%s", err, out)
	}
	return top
}

func env(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// kubelets simulates the kubelets of all nodes for the agents' pods.
type kubelets struct {
	*world
	top      string // directory in which the commands run
	registry string // "" if the agents run program
	program  string
}

// start runs an agent's pod: the program from the image with the container's arguments.
func (k *kubelets) start(pod object) (end func()) {
	meta, spec := sub(pod, "metadata"), sub(pod, "spec")
	name, host := fmt.Sprint(meta["name"]), fmt.Sprint(spec["nodeName"])
	container := spec["containers"].([]any)[0].(object)
	dir := k.t.TempDir()
	program, err := k.program, error(nil)
	if k.registry != "" {
		program, err = k.unpack(dir)
	}
	if err != nil || container["image"] != "dcm-kubernetes:latest" {
		k.t.Errorf("cannot run %v: %v", container["image"], err)
		return func() {}
	}
	write(k.t, filepath.Join(dir, "token"), k.bound(fmt.Sprint(meta["namespace"]), name))
	var args []string
	for _, a := range container["args"].([]any) {
		args = append(args, fmt.Sprint(a))
	}
	// Replace the mount points and the address of the API server.
	args = append(args, "-features="+filepath.Join(dir, "features"), "-socket="+k.socket(host), "-listen=127.0.0.1:0", "-config="+filepath.Join(k.dir, "config"),
		"-server="+k.url, "-token="+filepath.Join(dir, "token"), "-ca="+filepath.Join(k.dir, "certs", "apiserver.crt"))
	var environment []string
	for _, e := range container["env"].([]any) {
		at := strings.Split(fmt.Sprint(sub(e.(object), "valueFrom", "fieldRef")["fieldPath"]), ".")
		environment = append(environment, fmt.Sprintf("%v=%v", e.(object)["name"], sub(pod, at[:len(at)-1]...)[at[len(at)-1]]))
	}
	p := beginIn(k.t, dir, environment, program, args...)
	return p.kill
}

// unpack extracts the program from the image of this architecture.
func (k *kubelets) unpack(dir string) (string, error) {
	top, err := layout.ImageIndexFromPath(k.registry)
	if err != nil {
		return "", err
	}
	manifest, err := top.IndexManifest()
	if err != nil {
		return "", err
	}
	index, err := top.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		return "", err
	}
	if manifest, err = index.IndexManifest(); err != nil {
		return "", err
	}
	for _, m := range manifest.Manifests {
		if m.Platform.Architecture != runtime.GOARCH {
			continue
		}
		image, err := index.Image(m.Digest)
		if err != nil {
			return "", err
		}
		layers, err := image.Layers()
		if err != nil {
			return "", err
		}
		content, err := layers[0].Uncompressed()
		if err != nil {
			return "", err
		}
		defer content.Close()
		from := tar.NewReader(content)
		if _, err := from.Next(); err != nil {
			return "", err
		}
		var program bytes.Buffer
		if _, err := io.Copy(&program, from); err != nil {
			return "", err
		}
		at := filepath.Join(dir, "dcm-kubernetes")
		return at, os.WriteFile(at, program.Bytes(), 0o755)
	}
	return "", errors.New("there is no image of " + runtime.GOARCH)
}

// mount mounts a ConfigMap on the nodes.
func (k *kubelets) mount(kind string, o object) {
	if sub(o, "metadata")["name"] != "config-manager-config" || kind == "DELETED" {
		return
	}
	for name, text := range sub(o, "data") {
		k.config(name, fmt.Sprint(text))
	}
}
