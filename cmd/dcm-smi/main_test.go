package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"dcm/internal/gpu/amdsmi"
	"dcm/internal/gpu/amdsmi/standin"
)

const runMain = "DCM_SMI_TEST_RUN_MAIN"

// TestMain runs dcm-smi in a child process of the test, since a library may end its process.
func TestMain(m *testing.M) {
	if os.Getenv(runMain) != "" || len(os.Args) > 1 && os.Args[1] == again {
		os.Exit(run(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// library builds a stand-in library in a new directory and returns its path.
func library(t *testing.T, g standin.Generation, hidden ...string) string {
	t.Helper()
	lib, err := standin.Build(t.Context(), t.TempDir(), g, hidden...)
	if errors.Is(err, standin.ErrNoCompiler) && os.Getenv("DCM_E2E") != "require" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return lib
}

// tree creates a sysfs with two GPUs and a VGA controller.
func tree(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	if err := standin.Readable(root); err != nil {
		t.Fatal(err)
	}
	put := func(name, text string) {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("module/amdgpu/initstate", "live")
	put("bus/pci/devices/0000:02:00.0/device", "0x2000")
	for i, a := range []string{"0000:05:00.0", "0000:26:00.0"} {
		dir := "bus/pci/devices/" + a + "/"
		put(dir+"device", "0x74a1")
		put(dir+"unique_id", []string{"b6a11dbdfff8c2a1", "b6a11dbdfff8c2a2"}[i])
		put(dir+"current_compute_partition", "TPX")
		put(dir+"available_compute_partition", "SPX, DPX, TPX, QPX, CPX")
		put(dir+"current_memory_partition", "NPS2")
	}
	return root
}

func read(t *testing.T, root, gpu, file string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, "bus/pci/devices", gpu, file))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// ask runs dcm-smi with one request.
func ask(t *testing.T, r amdsmi.Request, env ...string) amdsmi.Reply {
	t.Helper()
	request, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], string(request))
	cmd.Env = append(append(os.Environ(), runMain+"=1"), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	runErr := cmd.Run()
	var reply amdsmi.Reply
	if err := json.Unmarshal(stdout.Bytes(), &reply); err != nil {
		t.Fatalf("no answer to %s: %v, %v\nstdout %q\nstderr %q", request, err, runErr, stdout.String(), stderr.String())
	}
	if (runErr == nil) != (reply.Error == nil) {
		t.Errorf("exit %v with error %+v in the answer", runErr, reply.Error)
	}
	return reply
}

func wantError(t *testing.T, reply amdsmi.Reply, kind amdsmi.Kind, text string) {
	t.Helper()
	if reply.Error == nil {
		t.Fatalf("no error, want %s with %q", kind, text)
	}
	if reply.Error.Kind != kind || !strings.Contains(reply.Error.Text, text) {
		t.Errorf("error %s %q, want %s with %q", reply.Error.Kind, reply.Error.Text, kind, text)
	}
}
