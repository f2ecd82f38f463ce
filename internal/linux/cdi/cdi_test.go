package cdi_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"tags.cncf.io/container-device-interface/pkg/cdi"
	specs "tags.cncf.io/container-device-interface/specs-go"

	own "dcm/internal/linux/cdi"
)

var devices = []own.Device{
	{Name: "reservation-vllm", Nodes: []string{"/dev/kfd", "/dev/dri/renderD129", "/dev/dri/renderD130"}},
	{Name: "0000:05:00.0-3", Nodes: []string{"/dev/kfd", "/dev/dri/renderD131"}},
	{Name: "all", Nodes: []string{"/dev/kfd", "/dev/dri/renderD131"}},
}

// TestWrite_ReferenceImplementationReadsIt reads the file with the library that engines use.
func TestWrite_ReferenceImplementationReadsIt(t *testing.T) {
	dir := t.TempDir()
	if err := own.Write(dir, devices); err != nil {
		t.Fatal(err)
	}
	cache, err := cdi.NewCache(cdi.WithSpecDirs(dir), cdi.WithAutoRefresh(false))
	if err != nil {
		t.Fatal(err)
	}
	if errs := cache.GetErrors(); len(errs) > 0 {
		t.Errorf("the library finds errors: %v", errs)
	}
	want := []string{own.Kind + "=0000:05:00.0-3", own.Kind + "=all", own.Kind + "=reservation-vllm"}
	if diff := cmp.Diff(want, cache.ListDevices()); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	spec := cache.GetDevice(own.Kind + "=reservation-vllm").GetSpec()
	if spec.Version != "0.5.0" {
		t.Errorf("version %s, want at most 0.5.0 for podman 4.3", spec.Version)
	}
	if least, err := specs.MinimumRequiredVersion(spec.Spec); err != nil || least > "0.5.0" {
		t.Errorf("the specification needs version %s (%v)", least, err)
	}
	var nodes []string
	for _, n := range cache.GetDevice(own.Kind + "=reservation-vllm").ContainerEdits.DeviceNodes {
		nodes = append(nodes, n.Path+" "+n.Permissions)
	}
	if diff := cmp.Diff([]string{"/dev/kfd rw", "/dev/dri/renderD129 rw", "/dev/dri/renderD130 rw"}, nodes); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
}

func TestWrite_NoDevices(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cdi")
	for range 2 {
		if err := own.Write(dir, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := own.Write(dir, devices); err != nil {
		t.Fatal(err)
	}
	if err := own.Write(dir, nil); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

func TestWrite_Unchanged(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, own.File)
	var seen [2]os.FileInfo
	for i := range seen {
		if err := own.Write(dir, devices); err != nil {
			t.Fatal(err)
		}
		var err error
		if seen[i], err = os.Stat(file); err != nil {
			t.Fatal(err)
		}
	}
	if !os.SameFile(seen[0], seen[1]) {
		t.Error("the unchanged file was replaced, and engines read it again")
	}
	if mode := seen[0].Mode().Perm(); mode != 0o644 {
		t.Errorf("the mode is %o: engines of other users cannot read it", mode)
	}
}

func TestWrite_InvalidNames(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"", "a b", "-a", "a-", "a/b", "a=b", "reservation-\xff", "ä"} {
		if err := own.Write(dir, []own.Device{{Name: name}}); err == nil || !strings.Contains(err.Error(), "invalid name") {
			t.Errorf("%q: %v", name, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}
