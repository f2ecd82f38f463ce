package record

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestScrub(t *testing.T) {
	r := Record{Kernel: "6.12.0-mynode1", Errors: []string{"/home/jane/lib: GPU-6c2b7e1f-0000-4000-8000-00000000d000 on mynode1.example.com"}, Files: []File{
		{Path: "/proc/driver/nvidia/version", Text: "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.82.07  Release Build  (jane@builder)"},
		{Path: "/proc/driver/nvidia/gpus/0000:1b:00.0/information", Text: "GPU UUID: GPU-6c2b7e1f-0000-4000-8000-00000000d000\nModel: H100"},
		{Path: "/sys/class/kfd/kfd/topology/nodes/2/properties", Text: "hive_id 9876543210\nunique_id 1234567890123\nnum_xcc 8"},
		{Path: "/sys/class/kfd/kfd/topology/nodes/3/properties", Text: "hive_id 9876543210\nunique_id 9234567890123\nnum_xcc 8"},
	}}
	scrub(&r, "mynode1.example.com")
	want := Record{Kernel: "6.12.0-HOST", Errors: []string{"/home/USER/lib: UUID on HOST"}, Files: []File{
		{Path: r.Files[0].Path, Text: "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.82.07  "},
		{Path: r.Files[1].Path, Text: "GPU UUID: UUID\nModel: H100"},
		{Path: r.Files[2].Path, Text: "hive_id 1\nunique_id 1\nnum_xcc 8"},
		{Path: r.Files[3].Path, Text: "hive_id 1\nunique_id 2\nnum_xcc 8"},
	}}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
}

func TestNames_Remove(t *testing.T) {
	n := Names{Hosts: []string{"mynode1.example.com", "localhost"}, Users: []string{"", "root", "nvidia", "jane"}}
	got := n.Remove("mynode1 mynode1.example.com mynode12 MyNode1: jane,jane jane2 root nvidia localhost /home/joe/x")
	if want := "HOST HOST mynode12 HOST: USER,USER jane2 root nvidia localhost /home/USER/x"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if diff := cmp.Diff([]string{"jane"}, People("root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\njane:x:1000:1000::/home/jane:/bin/sh\n:\n")); diff != "" {
		t.Error(diff)
	}
	if strings.Contains(n.Remove("x"), "HOST") {
		t.Error("an empty name was replaced")
	}
}
