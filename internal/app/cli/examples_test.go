package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
	"dcm/internal/testkit/examples"
	"dcm/internal/testkit/sim"
	"dcm/internal/testkit/sim/simtest"
)

// printed returns the examples of all documents, with those of the help texts.
func printed(t *testing.T) []examples.Example {
	t.Helper()
	all, err := examples.Documents("../../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range root(&host.Host{}, &console.Console{}, nil).Commands() {
		found, err := examples.Help("dcm "+c.Name(), c.Example)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	return all
}

// reader executes the steps of a document on a host without daemon.
type reader struct {
	*testing.T
	root string
}

// newReader returns a reader of a host with a simulated node of that kind, or without a GPU.
func newReader(t *testing.T, kind string) reader {
	t.Helper()
	r := reader{t, t.TempDir()}
	errs := []error{
		os.Symlink("/proc", filepath.Join(r.root, "proc")),
		os.MkdirAll(filepath.Join(r.root, "etc/dcm/dcm.toml.d"), 0o755), os.MkdirAll(filepath.Join(r.root, "run/dcm"), 0o755),
		os.CopyFS(filepath.Join(r.root, "usr/lib/dcm/dcm.toml.d"), os.DirFS("../../../packaging/profiles")),
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if kind == "" {
		return r
	}
	node := simtest.Start(t, kind, sim.Options{})
	t.Setenv("PATH", filepath.Dir(node.Modprobe)+string(filepath.ListSeparator)+os.Getenv("PATH"))
	if err := errors.Join(os.Symlink(node.Sys, filepath.Join(r.root, "sys")), os.Symlink(node.Dev, filepath.Join(r.root, "dev"))); err != nil {
		t.Fatal(err)
	}
	return r
}

// dcm runs a command and returns its output.
func (r reader) dcm(want int, words ...string) string {
	r.Helper()
	var out bytes.Buffer
	con := &console.Console{Out: &out, Err: &out}
	if got := Run(r.Context(), &host.Host{Root: r.root}, con, words); got != want {
		r.Errorf("dcm %s: exit status %d, want %d:\n%s", strings.Join(words, " "), got, want, &out)
	}
	return out.String()
}

func (r reader) put(file, text string) {
	r.Helper()
	if err := os.WriteFile(filepath.Join(r.root, file), []byte(text), 0o644); err != nil {
		r.Fatal(err)
	}
}

// configure installs an example on a node of that kind.
func (r reader) configure(e examples.Example, kind string) {
	r.Helper()
	r.put("usr/lib/dcm/dcm.toml.d/zz-base.toml", e.Base(kind))
	r.put("etc/dcm/dcm.toml", e.Text)
}

// accepts checks the configuration. A client of an example need not be installed, and a user need not exist.
func (r reader) accepts(words ...string) {
	r.Helper()
	for line := range strings.Lines(r.dcm(exitcode.OK, append([]string{"check"}, words...)...)) {
		if strings.Contains(line, "warning: ") && !strings.Contains(line, "not installed") && !strings.Contains(line, ": no user ") {
			r.Errorf("warning about an example: %s", line)
		}
	}
}

// applies installs a configuration and puts the profile that it selects on the GPUs.
func (r reader) applies(text string) {
	r.Helper()
	r.put("etc/dcm/dcm.toml", text)
	r.accepts()
	r.dcm(exitcode.OK, "oneshot")
	r.dcm(exitcode.OK, "verify")
}

// profiles returns the profile that a configuration selects, and those that it defines.
func profiles(t *testing.T, text string) []string {
	t.Helper()
	var c struct {
		Profile  string
		Profiles map[string]any
	}
	if _, err := toml.Decode(text, &c); err != nil {
		t.Fatal(err)
	}
	names := []string{c.Profile}
	for name := range c.Profiles {
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(n string) bool { return n == "" })
}

// TestExamples_Configurations: each printed configuration is loaded and fits the node that its text is about, and so does
// each profile in it.
func TestExamples_Configurations(t *testing.T) {
	n := 0
	for _, e := range printed(t) {
		if e.Kind != examples.Config {
			continue
		}
		n++
		for _, kind := range e.Nodes() {
			t.Run(e.String()+" "+kind, func(t *testing.T) {
				r := newReader(t, "")
				r.configure(e, kind)
				r.accepts("--node", kind)
				for _, name := range append(profiles(t, e.Text), profiles(t, e.Base(kind))...) {
					if said := r.dcm(exitcode.Differs, "plan", name, "--node", kind); !strings.Contains(said, name) {
						t.Errorf("plan of %s: got %s", name, said)
					}
				}
			})
		}
	}
	t.Logf("%d configurations", n)
}

// TestExamples_Settings: each setting in a sentence is valid in a table.
func TestExamples_Settings(t *testing.T) {
	tables := []string{
		"", "[clients]\n", "[apply]\n", "[daemon]\n", "[gpu]\n", "[metrics]\n", "[agent]\n", "[leases]\n", "[leases.groups.g]\n", "[guard]\n",
		"[[client]]\nunit = \"a\"\n", "[[budget]]\nunits = \"a\"\nmax-down = 1\n", "[[reservation]]\nunit = \"a\"\npartitions = 1\n", "[[reservation]]\nunit = \"a@\"\npartitions = 1\n", "[[reservation]]\nuser = \"a\"\ngpus = [0]\n", "[[reservation]]\ngpus = [0]\n",
		"[profiles.a]\n", "[profiles.a]\n[[profiles.a.group]]\ncount = \"rest\"\ncompute = \"CPX\"\n",
	}
	valid := make(map[string]bool) // by the setting
	for _, e := range printed(t) {
		if e.Kind != examples.Setting || valid[e.Text] {
			continue
		}
		r := newReader(t, "")
		valid[e.Text] = slices.ContainsFunc(tables, func(table string) bool {
			r.put("etc/dcm/dcm.toml", table+e.Text+"\n")
			con := &console.Console{Out: new(bytes.Buffer), Err: new(bytes.Buffer)}
			return Run(t.Context(), &host.Host{Root: r.root}, con, []string{"check"}) != exitcode.Config
		})
		if !valid[e.Text] {
			t.Errorf("%s: %s: valid in no table", e, e.Text)
		}
	}
	t.Logf("%d settings", len(valid))
}

// TestExamples_Applied: the configurations for AMD GPUs are applied, with each of their profiles.
func TestExamples_Applied(t *testing.T) {
	r := newReader(t, "mi300x-8")
	for _, e := range printed(t) {
		if e.Kind != examples.Config || !slices.Contains(e.Nodes(), "mi300x-8") || e.File == "packaging/dcm.toml" && len(profiles(t, e.Text)) == 0 {
			continue
		}
		r.put("usr/lib/dcm/dcm.toml.d/zz-base.toml", strings.TrimPrefix(e.Base("mi300x-8"), "profile = \"base\"\n"))
		names := profiles(t, e.Text)
		if len(names) == 0 {
			names = []string{"base"}
		}
		for _, name := range names {
			text := regexp.MustCompile(`(?m)^profile *=.*$`).ReplaceAllString(e.Text, "")
			if r.applies("profile = \"" + name + "\"\n" + text); t.Failed() {
				t.Fatalf("%s: profile %q", e, name)
			}
		}
	}
}

// TestExamples_Plan: the steps that a document shows are those that dcm plan prints.
func TestExamples_Plan(t *testing.T) {
	r := newReader(t, "mi300x-8")
	step := regexp.MustCompile(`(?m)^ *(\d\. .*)$`)
	n := 0
	for _, e := range printed(t) {
		commands, err := e.Commands()
		if err != nil {
			continue // TestExamples_Commands reports it
		}
		for _, c := range commands {
			words := strings.Fields(c.Text)
			if e.Kind != examples.Session || words[0] != "dcm" || words[1] != "plan" || c.Output == "" {
				continue
			}
			said := r.dcm(e.Mark.Status(c.Text), words[1:]...)
			for _, m := range step.FindAllStringSubmatch(c.Output, -1) {
				if n++; !strings.Contains(said, m[1]) {
					t.Errorf("%s: %s: want the step %q, got:\n%s", e, c.Text, m[1], said)
				}
			}
		}
	}
	if n == 0 {
		t.Error("no step found")
	}
}

// placeholder is a word that a reader replaces.
var placeholder = regexp.MustCompile(`^[A-Z][A-Z0-9]+$|\.\.\.$`)

// TestExamples_Commands: each printed command of dcm has a command, options and arguments that exist.
func TestExamples_Commands(t *testing.T) {
	n := 0
	for _, e := range printed(t) {
		commands, err := e.Commands()
		if err != nil {
			if !e.Inline {
				t.Error(err)
			} // else a usage line, which TestManual_HasEveryCommand compares
			continue
		}
		for _, c := range commands {
			calls, err := c.Calls()
			if err != nil {
				t.Error(err)
			}
			for _, words := range calls {
				if words[0] == "dcm" {
					n++
					checkCall(t, e, words[1:])
				}
			}
		}
	}
	t.Logf("%d commands of dcm", n)
}

// checkCall parses a command line as dcm does. In a sentence, a command may be named with an option and without its value.
func checkCall(t *testing.T, e examples.Example, words []string) {
	t.Helper()
	all := root(&host.Host{}, &console.Console{}, nil)
	all.Version = "devel"
	all.InitDefaultVersionFlag()
	all.InitDefaultHelpCmd()
	all.InitDefaultCompletionCmd("completion")
	c, rest, err := all.Find(words)
	if err == nil && len(words) > 0 && c == all && !strings.HasPrefix(words[0], "-") {
		err = errors.New("no such command")
	}
	if err == nil {
		err = parse(c, rest)
	}
	if err != nil && (e.Inline || slices.ContainsFunc(words, placeholder.MatchString)) {
		err = options(c, rest)
	}
	if err != nil {
		t.Errorf("%s: dcm %s: %v", e, strings.Join(words, " "), err)
	}
}

func parse(c *cobra.Command, rest []string) error {
	if err := c.ParseFlags(rest); err != nil {
		return err
	}
	return errors.Join(c.ValidateArgs(c.Flags().Args()), c.ValidateRequiredFlags(), c.ValidateFlagGroups())
}

// options returns an error if an option does not exist.
func options(c *cobra.Command, rest []string) error {
	for _, word := range rest {
		name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
		var f *pflag.Flag
		switch {
		case word == "--":
			return nil
		case strings.HasPrefix(word, "--"):
			f = c.Flag(name)
		case strings.HasPrefix(word, "-") && len(word) == 2:
			f = c.Flags().ShorthandLookup(name)
		default:
			continue
		}
		if f == nil {
			return errors.New("no such option " + word)
		}
	}
	return nil
}

// TestExamples_AnyHost: the commands about another kind of node need neither GPU nor daemon. They succeed, or fail as
// their marks say.
func TestExamples_AnyHost(t *testing.T) {
	n := 0
	for _, e := range printed(t) {
		commands, err := e.Commands()
		if err != nil {
			continue // TestExamples_Commands reports it
		}
		for _, c := range commands {
			calls, err := c.Calls()
			if err != nil || len(calls) != 1 || calls[0][0] != "dcm" {
				continue
			}
			words := calls[0][1:]
			at := slices.Index(words, "--node")
			if at < 0 || slices.ContainsFunc(words, placeholder.MatchString) || strings.ContainsAny(words[at+1], "/.") {
				continue
			}
			n++
			t.Run(e.String(), func(t *testing.T) {
				r := newReader(t, "")
				t.Chdir(r.root)
				r.put("dcm.toml", "profile = \"cpx-nps4\"\n")
				r.dcm(e.Mark.Status(c.Text), words...)
			})
		}
	}
	if n == 0 {
		t.Error("no command with --node found")
	}
	t.Logf("%d commands", n)
}
