package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"dcm/internal/gpu/partition"
)

// File is a text to be imported, and what messages call it.
type File struct {
	Name string
	Text []byte

	before int  // lines of the file before a text that is a part of it
	flat   bool // the text is on one line of the file
}

// importer collects what is wrong with the imported files.
type importer struct {
	*checker
	yaml    YAML
	indexed []partition.GPU // the GPUs that mig-parted's indices count; nil if not known
}

// ImportFiles is Import of the files that belong together: a document of the Kubernetes
// form alone, or mig-parted's config.yaml, with the hooks of its service, the units that the
// GPU operator stops and the unit file in which the service keeps its selection. A file may
// be one with ConfigMaps that hold these.
//
// here are all GPUs of the host that mig-parted's indices are of, which become addresses; nil
// if they are not known.
func ImportFiles(files []File, gpus int, here []partition.GPU, yaml YAML) (toml string, warnings []string, err error) {
	var of [kinds][]File
	c := &importer{checker: new(checker), yaml: yaml, indexed: indexed(here)}
	for _, f := range files {
		problem := checkText(f.Name, f.Text)
		var held []File
		if problem == nil {
			held, problem = c.unfold(f)
		}
		if problem != nil {
			return "", nil, &Errors{[]Problem{*problem}}
		}
		for _, f := range held {
			kind := kindOf(string(f.Text))
			of[kind] = append(of[kind], f)
		}
	}
	if len(files) == 1 && len(of[aDocument]) == 1 {
		return Import(files[0].Name, files[0].Text, gpus, yaml)
	}
	if len(of[aConfig]) != 1 || len(of[aDocument]) > 0 || len(of[aSelection]) > 1 {
		return "", nil, &Errors{[]Problem{{File: files[0].Name, Text: "these files do not belong together",
			Accepted: "one document of the Kubernetes form; or mig-parted's config.yaml, and with it hooks.yaml, hooks.sh, clients.yaml and override.conf; or a ConfigMap with these"}}}
	}
	return c.importMIG(of)
}

// The kinds of files.
const (
	aDocument  = iota // the Kubernetes form, or what has that mistaken for it
	aConfig           // mig-parted's config.yaml
	aHooks            // its hooks.yaml
	aScript           // its hooks.sh
	aClients          // the clients.yaml of the GPU operator
	aSelection        // its override.conf
	kinds
)

func configKey() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^["']?` + inMIGParted + `["']?[ \t]*:|"` + inMIGParted + `"[ \t\n]*:`)
}

func hooksKey() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^["']?hooks["']?[ \t]*:`)
}

func arrays() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^[ \t]*(?:declare[ \t]+-a[ \t]+)?[a-z0-9_]*services=\(([^()]*)\)`)
}

func selected() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^[ \t]*Environment=.*\bMIG_PARTED_SELECTED_CONFIG=([^"'\n]*)`)
}

func kindOf(text string) int {
	switch {
	case configKey().MatchString(text):
		return aConfig
	case hooksKey().MatchString(text):
		return aHooks
	case clientsKey().MatchString(text):
		return aClients
	case selected().MatchString(text):
		return aSelection
	case arrays().MatchString(text):
		return aScript
	}
	return aDocument
}

func (c *importer) importMIG(of [kinds][]File) (string, []string, error) {
	fail := func() (string, []string, error) {
		return "", nil, &Errors{sorted(c.problems, []layer{{file: of[aConfig][0].Name}})}
	}
	root, broken := c.plainYAML(of[aConfig][0])
	if broken != nil {
		c.problems = append(c.problems, *broken)
		return fail()
	}
	cfg := c.readMIGParted(root)
	if len(c.problems) == 0 && len(cfg.Profiles) == 0 {
		for _, name := range slices.Sorted(maps.Keys(c.out)) {
			c.problems = append(c.problems, c.out[name]...)
		}
	}
	for _, f := range of[aHooks] {
		c.hooks(f, cfg, len(of[aScript]) > 0)
	}
	for _, f := range of[aScript] {
		for _, at := range arrays().FindAllSubmatchIndex(f.Text, -1) {
			line := 1 + strings.Count(string(f.Text[:at[2]]), "\n")
			for i, text := range strings.Split(string(f.Text[at[2]:at[3]]), "\n") {
				text, _, _ = strings.Cut(text, "#")
				for _, name := range strings.Fields(text) {
					c.client(cfg, &node{file: f.Name, line: line + i}, strings.Trim(name, `"'`))
				}
			}
		}
	}
	for _, f := range of[aClients] {
		c.stopped(f, cfg)
	}
	for _, f := range of[aSelection] {
		c.taken(f, cfg)
	}
	if len(c.problems) > 0 {
		return fail()
	}
	return migPartedHead(cfg) + Format(cfg), c.warnings, nil
}

// taken takes over what the service has selected: the last assignment counts.
func (c *importer) taken(f File, cfg *Config) {
	all := selected().FindAllSubmatchIndex(f.Text, -1)
	at := all[len(all)-1]
	name := strings.TrimSpace(string(f.Text[at[2]:at[3]]))
	n := &node{file: f.Name, line: 1 + strings.Count(string(f.Text[:at[0]]), "\n"), value: name}
	_, common := partition.Predefined(name)
	_, defined := cfg.Profiles[name]
	switch {
	case name == "":
		return
	case defined || common && c.out[name] == nil:
		cfg.Selected = name
	case c.out[name] != nil:
		c.problems = append(c.problems, c.out[name]...)
	default:
		c.fail(n, "MIG_PARTED_SELECTED_CONFIG", noProfile(name, cfg.Names()))
	}
}

// hooks takes the units that hooks stop or start as clients, and tells of the others.
// known says that the script with the units of the usual hooks is there.
func (c *importer) hooks(f File, cfg *Config, known bool) {
	root, broken := c.plainYAML(f)
	if broken != nil {
		c.problems = append(c.problems, *broken)
		return
	}
	stages := tables(root.at("hooks"))
	for _, stage := range stages.keys() {
		for _, hook := range stages[stage].items() {
			c.hook(hook, stage, cfg, known)
		}
	}
}

// own are the usual hooks that need no replacement: dcm keeps the selection itself.
func own() *regexp.Regexp { return regexp.MustCompile(`^(apply-start|refresh-cdi)\b`) }

func (c *importer) hook(hook *node, stage string, cfg *Config, known bool) {
	command, _ := hook.at("command").text()
	words := []string{command}
	for _, arg := range hook.at("args").items() {
		text, _ := arg.text()
		words = append(words, text)
	}
	line := strings.Join(words, " ")
	_, script, usual := strings.Cut(line, "hooks.sh; ")
	units := controlled(line)
	for _, name := range units {
		c.client(cfg, hook, name)
	}
	switch {
	case len(units) > 0 || usual && (known || own().MatchString(script)):
	case usual:
		c.warn(hook, "the hook %s runs hooks.sh, which has units in it: name that file too", stage)
	default:
		c.warn(hook, "the hook %s is not imported: it runs %s; units that have a GPU open belong in [clients]", stage, clip(line))
	}
}

func systemctl() *regexp.Regexp {
	return regexp.MustCompile(`\bsystemctl\b((?: +-[-a-z=]+)*) +(?:stop|start|restart|try-restart)((?: +[-\w.@:\\]+)+)`)
}

// controlled are the units that a command line has systemctl stop or start.
func controlled(line string) []string {
	var units []string
	for _, m := range systemctl().FindAllStringSubmatch(line, -1) {
		for _, word := range strings.Fields(m[2]) {
			if !strings.HasPrefix(word, "-") {
				units = append(units, word)
			}
		}
	}
	return units
}

// noClients are units that are no clients, although mig-parted's users stop them.
func noClients() map[string]string {
	const ordered = "dcm works while it runs"
	return map[string]string{
		"kubelet.service":              "it has no GPU open, and stopping it stops nothing that has",
		"nvidia-persistenced.service":  ordered,
		"nvidia-fabricmanager.service": ordered,
		"nvidia-imex.service":          ordered,
		"nvidia-cdi-refresh.service":   "dcm starts it after a change",
		"nvidia-mig-manager.service":   "dcm takes its place",
	}
}

// client adds a unit to the clients, once.
func (c *importer) client(cfg *Config, at *node, name string) {
	stem := strings.TrimSuffix(name, ".service")
	if why := noClients()[stem+".service"]; why != "" {
		c.warn(at, "%s.service is not made a client: %s", stem, why)
		return
	}
	full, f := unit(name)
	if f != nil {
		c.warn(at, "%s is not imported: %s", clip(name), f)
		return
	}
	if !slices.Contains(cfg.Clients, full) {
		cfg.Clients = append(cfg.Clients, full)
	}
}

func unusable(c *Config) []string { return slices.Sorted(maps.Keys(c.Unusable)) }
