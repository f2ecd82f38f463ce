package cli

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
	"dcm/internal/testkit/sim"
	"dcm/internal/testkit/sim/simtest"
)

// reader executes the steps of a document on a simulated node.
type reader struct {
	*testing.T
	root string
}

// newReader returns a reader with a node of that kind.
func newReader(t *testing.T, kind string) reader {
	t.Helper()
	node := simtest.Start(t, kind, sim.Options{})
	t.Setenv("PATH", filepath.Dir(node.Modprobe)+string(filepath.ListSeparator)+os.Getenv("PATH"))
	r := reader{t, t.TempDir()}
	errs := []error{
		os.Symlink("/proc", filepath.Join(r.root, "proc")), os.Symlink(node.Sys, filepath.Join(r.root, "sys")), os.Symlink(node.Dev, filepath.Join(r.root, "dev")),
		os.MkdirAll(filepath.Join(r.root, "etc/dcm/dcm.toml.d"), 0o755), os.MkdirAll(filepath.Join(r.root, "run/dcm"), 0o755),
		os.CopyFS(filepath.Join(r.root, "usr/lib/dcm/dcm.toml.d"), os.DirFS("../../../packaging/profiles")),
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return r
}

// dcm runs a command line and returns its output.
func (r reader) dcm(want int, line string) string {
	r.Helper()
	var out bytes.Buffer
	con := &console.Console{Out: &out, Err: &out}
	if got := Run(r.Context(), &host.Host{Root: r.root}, con, strings.Fields(line)); got != want {
		r.Errorf("dcm %s ends with %d, want %d:\n%s", line, got, want, &out)
	}
	return out.String()
}

func (r reader) put(file, text string) {
	r.Helper()
	if err := os.WriteFile(filepath.Join(r.root, file), []byte(text), 0o644); err != nil {
		r.Fatal(err)
	}
}

// applies puts a configuration in place and the profile that it selects on the GPUs.
func (r reader) applies(text string) {
	r.Helper()
	r.put("etc/dcm/dcm.toml", text)
	if said := r.dcm(exitcode.OK, "check"); strings.Contains(said, "warning: ") && !strings.Contains(said, "not installed") {
		r.Errorf("an example is warned of:\n%s", said)
	}
	r.dcm(exitcode.OK, "oneshot")
	r.dcm(exitcode.OK, "verify")
}

// selecting is a configuration with that profile selected, as `dcm use` would write it.
func selecting(text, profile string) string {
	return regexp.MustCompile(`(?m)^profile = .*$`).ReplaceAllString(text, `profile = "`+profile+`"`)
}

func document(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../..", file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// blocks are the texts between two lines, without their common indentation.
func blocks(text, from, to string) []string {
	var out []string
	for _, m := range regexp.MustCompile(`(?ms)^( *)`+from+`\n(.*?)^ *`+to+`$`).FindAllStringSubmatch(text, -1) {
		out = append(out, strings.ReplaceAll("\n"+m[2], "\n"+m[1], "\n")[1:])
	}
	return out
}

func TestExamples_README(t *testing.T) {
	r := newReader(t, "mi300x-8")
	readme := document(t, "README.md")
	examples := blocks(readme, "```toml", "```")
	if len(examples) != 2 {
		t.Fatalf("the README has %d examples of a configuration, and this test follows two", len(examples))
	}
	r.followed(readme, "dcm plan cpx-nps4")
	r.applies(examples[0])
	// The second is of profiles, and is added to the first.
	added := examples[0] + "\n" + examples[1]
	r.applies(added)
	r.applies(selecting(added, "mixed"))
	r.applies(selecting(added, "cpx-nps4"))

	if !strings.Contains(readme, "dcm import config.json | sudo tee /etc/dcm/dcm.toml.d/10-kubernetes.toml") {
		t.Fatal("the README imports in another way")
	}
	document := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(document, []byte(kubernetes(t)), 0o644); err != nil {
		t.Fatal(err)
	}
	r.put("etc/dcm/dcm.toml.d/10-kubernetes.toml", r.dcm(exitcode.OK, "import "+document))
	r.applies(selecting(examples[0], "cpx-profile"))
}

func kubernetes(t *testing.T) string {
	t.Helper()
	return document(t, "internal/testkit/e2e/kubernetes.json")
}

// followed checks that a command says each step that the document shows of it.
func (r reader) followed(text, command string) {
	r.Helper()
	r.put("etc/dcm/dcm.toml", "")
	_, shown, ok := strings.Cut(text, "    $ "+command+"\n")
	if !ok {
		r.Fatalf("nothing is shown of %s", command)
	}
	said := r.dcm(exitcode.Differs, strings.TrimPrefix(command, "dcm "))
	for _, line := range regexp.MustCompile(`(?m)^ +\d\. .*$`).FindAllString(strings.Split(shown, "\n\n")[0], -1) {
		if !strings.Contains(said, strings.TrimSpace(line)) {
			r.Errorf("%s does not say %q:\n%s", command, strings.TrimSpace(line), said)
		}
	}
}

func TestExamples_Manual(t *testing.T) {
	r := newReader(t, "mi300x-8")
	_, examples, _ := strings.Cut(document(t, "packaging/man/dcm.toml.5"), ".SH EXAMPLES\n")
	all := blocks(strings.ReplaceAll(examples, `\-`, "-"), `\.nf`, `\.fi`)
	if len(all) != 3 {
		t.Fatalf("dcm.toml(5) has %d examples, and this test follows three", len(all))
	}
	for _, text := range all[:2] {
		r.applies(text)
	}
	r.put("etc/dcm/dcm.toml", all[2])
	r.dcm(exitcode.OK, "check --node mi300x-4+h100-4")
}

// The template is valid with the # removed from every key, and the profile that it defines
// applies.
func TestExamples_Template(t *testing.T) {
	r := newReader(t, "mi300x-8")
	text := regexp.MustCompile(`(?m)^#([a-z\[])`).ReplaceAllString(document(t, "packaging/dcm.toml"), "$1")
	text = strings.Replace(text, `unit-of-change = "node"`, `unit-of-change = "gpu"`, 1)                    // the example of a budget requires it
	text = regexp.MustCompile(`(?s)\[\[reservation\]\]\nunit = "llm@".*?\n\n`).ReplaceAllString(text, "\n") // a MIG instance requires a GPU of NVIDIA
	r.applies(text)
	r.applies(selecting(text, "mixed"))
	r.applies(selecting(text, "cpx-nps4"))
}

// Every command line of the manuals and the README has a command and options that exist, and
// those that only read run without a usage error.
func TestExamples_Commands(t *testing.T) {
	r := newReader(t, "mi300x-8")
	r.applies(blocks(document(t, "README.md"), "```toml", "```")[0])
	pages, err := filepath.Glob("../../../packaging/man/*")
	if err != nil {
		t.Fatal(err)
	}
	commands := root(&host.Host{}, &console.Console{}, nil)
	shown := regexp.MustCompile(`(?m)^ {0,8}(?:\$ )?(?:sudo )?dcm ([a-z].*)$|` + "`(?:sudo )?dcm ([a-z][^`]*)`" + `|(?m)^\.(?:B|BR|RB) (?:")?dcm ([a-z][^"\n]* --?[a-z][^"\n]*)`)
	looking := map[string]bool{"profiles": true, "plan": true, "status": true, "gpus": true, "partitions": true, "holders": true, "check": true, "verify": true, "export": true, "report": true}
	tried := 0
	for _, page := range append(pages, "../../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range shown.FindAllStringSubmatch(strings.ReplaceAll(string(text), `\-`, "-"), -1) {
			line, _, _ := strings.Cut(m[1]+m[2]+m[3], "|")
			line, _, _ = strings.Cut(line, " #")
			words := strings.Fields(line)
			checkShown(t, commands, filepath.Base(page), words)
			if !looking[words[0]] || strings.ToLower(line) != line || strings.ContainsAny(line, "[.;,(") || strings.Contains(line, "--watch") || strings.Contains(line, "--bundle") {
				continue
			}
			var out bytes.Buffer
			if code := Run(t.Context(), &host.Host{Root: r.root}, &console.Console{Out: &out, Err: &out}, words); code == exitcode.Usage {
				t.Errorf("%s shows dcm %s, which there is not:\n%s", filepath.Base(page), line, &out)
			}
			tried++
		}
	}
	if tried < 10 {
		t.Errorf("%d commands were found, which is too few to be true", tried)
	}
	if _, err := os.Stat(filepath.Join(r.root, "etc/dcm/dcm.toml")); errors.Is(err, fs.ErrNotExist) {
		t.Error("a command that only looks has taken the configuration away")
	}
}

// checkShown checks that a command and its options exist.
func checkShown(t *testing.T, commands *cobra.Command, page string, words []string) {
	t.Helper()
	c, _, err := commands.Find(words[:1])
	if err != nil || c == commands {
		return // a sentence
	}
	for _, word := range words[1:] {
		word = strings.TrimRight(strings.Trim(word, "[]"), ".,;")
		name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
		switch {
		case word == "--":
			return
		case strings.HasPrefix(word, "--") && c.Flag(name) == nil, regexp.MustCompile(`^-[a-z]$`).MatchString(word) && c.Flags().ShorthandLookup(name) == nil:
			t.Errorf("%s: dcm %s: no such option %s", page, c.Name(), word)
		}
	}
}
