package sanitize_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// readers are the ways by which text from outside comes into a program.
func readers() map[string][]string {
	system := []string{"Open", "Openat", "Openat2", "Read", "Pread", "Readlink", "Readlinkat", "ReadDirent", "Getdents", "Recvfrom", "Recvmsg", "Getxattr"}
	return map[string][]string{
		"os": {"ReadFile", "Open", "OpenFile", "OpenRoot", "OpenInRoot", "DirFS", "ReadDir", "Readlink", "NewFile",
			"Getenv", "LookupEnv", "Environ", "ExpandEnv", "Args", "Hostname", "Stdin"},
		"os/exec":                  {"Command", "CommandContext"},
		"os/user":                  {"Lookup", "LookupId", "Current"},
		"io/fs":                    {"ReadFile", "ReadDir", "WalkDir", "Glob"},
		"path/filepath":            {"Glob", "Walk", "WalkDir", "EvalSymlinks"},
		"syscall":                  system,
		"golang.org/x/sys/unix":    system,
		"encoding/json":            {"Unmarshal", "NewDecoder"},
		"dcm/internal/linux/sysfs": {"Bytes", "Names", "NamesAt", "NamesIn", "ListDir"}, // what others read there is escaped
		"net":                      {"Dial", "DialUnix", "Listen", "ListenUnix", "ListenUnixgram", "FileConn"},
	}
}

// escapes is the reason of a function that hands what it reads to this package. It is
// checked.
const escapes = "escapes"

func TestExternalTextIsSanitized(t *testing.T) {
	known := doors()
	used := make(map[string]bool)
	each(t, func(where, file, what string, here bool) {
		used[where] = true
		switch reason, ok := known[where]; {
		case !ok:
			t.Errorf("%s: %s calls %s: take what it reads in through internal/sanitize, and list it in doors", file, where, what)
		case reason == escapes && !here:
			t.Errorf("%s: %s is listed as one that escapes what it reads, and does not mention internal/sanitize", file, where)
		}
	})
	for where := range known {
		if !used[where] {
			t.Errorf("%s is listed in doors, and reads nothing", where)
		}
	}
}

// apart are not part of what root runs on a host: the simulator, the tests, the
// helpers that hold a vendor's library, whose answers come in by a door of dcm's, and
// the agent of a cluster, which is confined to a container and quotes what it reads or
// sends it to the API server.
func apart(dir string) bool {
	for _, d := range []string{"internal/sanitize", "internal/testkit/sim", "internal/testkit/e2e", "internal/testkit/pty", "internal/testkit/soak", "internal/testkit/pid1", "internal/testkit/histories", "internal/testkit/examples", "internal/testkit/surface", "internal/testkit/testedon", "internal/testkit/importrules", "internal/engine/config/configtest", "internal/gpu/amdsmi", "internal/gpu/nvml", "internal/worker/sandbox", "cmd/dcm-sim", "cmd/dcm-smi", "cmd/dcm-nvml", "cmd/dcm-kubernetes", "packaging"} {
		if dir == d || strings.HasPrefix(dir, d+"/") {
			return true
		}
	}
	return false
}

// each calls f for every use of a reader: by which function, and whether that mentions
// this package.
func each(t *testing.T, f func(where, file, what string, here bool)) {
	t.Helper()
	top := filepath.Join("..", "..")
	err := filepath.WalkDir(top, func(file string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(top, file)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (apart(rel) || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && rel != "."):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go"):
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		names := make(map[string]string) // as it is called in the file → import path; "dbus" if messages of a bus are read
		for _, i := range parsed.Imports {
			p, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			name := path.Base(p)
			if strings.HasPrefix(p, "github.com/godbus/dbus/") {
				name = "dbus"
			}
			if i.Name != nil {
				name = i.Name.Name
			}
			names[name] = p
		}
		pkg := filepath.Base(filepath.Dir(rel))
		for _, decl := range parsed.Decls {
			where := pkg + "." + nameOf(decl)
			all := uses(decl, names)
			here := slices.Contains(all, "foreign")
			for _, what := range all {
				if what != "foreign" {
					f(where, rel, what, here)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func nameOf(decl ast.Decl) string {
	f, ok := decl.(*ast.FuncDecl)
	if !ok {
		return "var"
	}
	if f.Recv == nil {
		return f.Name.Name
	}
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if generic, ok := of.(*ast.IndexExpr); ok {
		of = generic.X
	}
	if id, ok := of.(*ast.Ident); ok {
		return id.Name + "." + f.Name.Name
	}
	return f.Name.Name
}

// uses lists the readers that are mentioned, called or handed on.
func uses(n ast.Node, names map[string]string) []string {
	var out []string
	all := readers()
	ast.Inspect(n, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if _, bus := names["dbus"]; bus && (s.Sel.Name == "Store" || s.Sel.Name == "Body" || s.Sel.Name == "StoreInterfaces") {
			out = append(out, "dbus "+s.Sel.Name) // an answer or a signal
		}
		id, ok := s.X.(*ast.Ident)
		if !ok {
			return true
		}
		switch p := names[id.Name]; {
		case p == "dcm/internal/sanitize":
			out = append(out, "foreign")
		case slices.Contains(all[p], s.Sel.Name):
			out = append(out, id.Name+"."+s.Sel.Name)
		}
		return true
	})
	return out
}
