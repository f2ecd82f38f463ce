package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"dcm/internal/gpu/amdsmi"
	"dcm/internal/gpu/amdsmi/standin"
	"dcm/internal/worker/serve"
)

// The stand-in library tries what the sandbox forbids, and logs the results.
func TestLibrary_Sandbox(t *testing.T) {
	none := "0000000000000000"
	nobodyForRoot := strconv.Itoa(os.Getuid())
	if os.Getuid() == 0 {
		nobodyForRoot = "65534"
	}
	for _, c := range []struct {
		name    string
		request amdsmi.Request
		user    string
	}{
		{"a look", amdsmi.Request{Do: amdsmi.Inventory}, nobodyForRoot},
		{"a traced look", amdsmi.Request{Do: amdsmi.Inventory, Trace: true}, nobodyForRoot},
		{"a set", amdsmi.Request{Do: amdsmi.SetCompute, GPU: first, Mode: "CPX"}, strconv.Itoa(os.Getuid())},
	} {
		t.Run(c.name, func(t *testing.T) {
			lib, root := library(t, standin.Latest()), tree(t)
			report := filepath.Join(root, "report")
			if err := os.WriteFile(report, nil, 0o666); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(report, 0o666); err != nil {
				t.Fatal(err)
			}
			turn(t, lib, "sys "+root, "confess "+report)
			c.request.Library = lib
			reply := ask(t, c.request)
			if reply.Error != nil {
				t.Fatalf("%+v", reply.Error)
			}
			if c.request.Trace != slices.ContainsFunc(reply.Refused, func(r serve.Refusal) bool { return r.Number == unix.SYS_SOCKET }) {
				t.Errorf("the trace is %+v", reply.Refused)
			}
			text, err := os.ReadFile(report)
			if err != nil {
				t.Fatal(err)
			}
			got := make(map[string]string)
			for line := range strings.Lines(string(text)) {
				key, value, _ := strings.Cut(line, ":")
				got[key] = strings.TrimSpace(value)
			}
			want := map[string]string{
				"CapInh": none, "CapPrm": none, "CapEff": none, "CapAmb": none, "NoNewPrivs": "1", "Seccomp": "2", "user": c.user,
				"socket": "Operation not permitted", "signal the caller": "Operation not permitted", "user namespace": "Operation not permitted",
				"type at the terminal": "Operation not permitted", "shell's signal": "refused",
			}
			if c.user != "0" {
				want["read shadow"] = "Permission denied"
			}
			for key, value := range want {
				if got[key] != value {
					t.Errorf("%s: %q, want %q", key, got[key], value)
				}
			}
		})
	}
}

// In each case the file, its directory or a link to it has an untrusted owner or mode.
func TestLibrary_UntrustedOwner(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to give files to others")
	}
	const other = 4711
	for _, c := range []struct {
		name string
		make func(dir, lib string) (path string, err error)
		text string
	}{
		{"writable by all", func(_, lib string) (string, error) { return lib, os.Chmod(lib, 0o777) }, "mode 0777"},
		{"writable by its group", func(_, lib string) (string, error) { return lib, os.Chmod(lib, 0o775) }, "mode 0775"},
		{"of another user", func(_, lib string) (string, error) { return lib, os.Lchown(lib, other, 0) }, "belongs to user 4711"},
		{"in a directory of another user", func(dir, lib string) (string, error) { return lib, os.Lchown(dir, other, 0) }, "on its path, belongs to user 4711"},
		{"in a directory that all can write to", func(dir, lib string) (string, error) { return lib, os.Chmod(dir, 0o777) }, "mode 0777"},
		{"link of another user", func(dir, lib string) (string, error) {
			link := filepath.Join(dir, "link")
			if err := os.Symlink(lib, link); err != nil {
				return "", err
			}
			return link, os.Lchown(link, other, 0)
		}, "belongs to user 4711"},
		{"link to another user's directory", func(dir, lib string) (string, error) {
			theirs := filepath.Join(dir, "theirs")
			if err := os.Mkdir(theirs, 0o755); err != nil {
				return "", err
			}
			if err := os.Rename(lib, filepath.Join(theirs, "lib.so")); err != nil {
				return "", err
			}
			if err := os.Chown(theirs, other, 0); err != nil {
				return "", err
			}
			link := filepath.Join(dir, "link")
			return link, os.Symlink("theirs/lib.so", link)
		}, "theirs, on its path, belongs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			lib, root := library(t, standin.Latest()), tree(t)
			turn(t, lib, "sys "+root)
			path, err := c.make(filepath.Dir(lib), lib)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range []amdsmi.Request{{Do: amdsmi.TellVersion}, {Do: amdsmi.SetCompute, GPU: first, Mode: "CPX"}} {
				r.Library = path
				wantError(t, ask(t, r), amdsmi.Untrusted, c.text)
			}
			wantUntouched(t, root)
		})
	}
}

// A user can start dcm-smi with the argument of its second execution. It then has all its privileges,
// and refuses to serve.
func TestServe_RequiresSandbox(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to have capabilities")
	}
	reply := confined("0", `{"do":"version"}`)
	wantError(t, reply, amdsmi.Unconfined, "capabilities")
}
