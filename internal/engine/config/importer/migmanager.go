package importer

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"dcm/internal/engine/config"
	"dcm/internal/engine/config/rule"
	"dcm/internal/engine/config/source"
	"dcm/internal/gpu/partition"
)

// File is a text to import, with its name for messages.
type File struct {
	Name string
	Text []byte

	before int  // number of lines before the text in its file
	flat   bool // the text is on one line of the file
}

// importer collects the problems of the imported files.
type importer struct {
	*rule.Checker
	indexed []partition.GPU // the GPUs to which mig-parted's indices refer; nil if unknown
}

// ImportFiles is Import for several files: a document of the Kubernetes form alone, or mig-parted's
// config.yaml with the hooks of its service, the units that the GPU operator stops, and the unit file
// with the selection of the service. A file may have ConfigMaps with these files.
//
// here are all GPUs of the host, for the conversion of mig-parted's indices to addresses; nil if
// unknown.
func ImportFiles(files []File, gpus int, here []partition.GPU) (toml string, warnings []string, err error) {
	var of [kinds][]File
	c := &importer{Checker: new(rule.Checker), indexed: indexed(here)}
	for _, f := range files {
		problem := source.CheckText(f.Name, f.Text)
		var held []File
		if problem == nil {
			held, problem = c.unfold(f)
		}
		if problem != nil {
			return "", nil, source.NewErrors(*problem)
		}
		for _, f := range held {
			kind := kindOf(string(f.Text))
			of[kind] = append(of[kind], f)
		}
	}
	if len(files) == 1 && len(of[kindKubernetes]) == 1 {
		return Import(files[0].Name, files[0].Text, gpus)
	}
	if len(of[kindConfig]) != 1 || len(of[kindKubernetes]) > 0 || len(of[kindSelection]) > 1 {
		return "", nil, source.NewErrors(source.Problem{File: files[0].Name, Text: "the files do not fit together",
			Accepted: "one document of the Kubernetes form; or mig-parted's config.yaml, and with it hooks.yaml, hooks.sh, clients.yaml and override.conf; or a ConfigMap with these"})
	}
	return c.importMIG(of)
}

// The kinds of files.
const (
	kindKubernetes = iota // the Kubernetes form, or an unknown text
	kindConfig            // mig-parted's config.yaml
	kindHooks             // its hooks.yaml
	kindScript            // its hooks.sh
	kindClients           // the clients.yaml of the GPU operator
	kindSelection         // its override.conf
	kinds
)

func configKey() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^["']?` + configsKey + `["']?[ \t]*:|"` + configsKey + `"[ \t\n]*:`)
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
		return kindConfig
	case hooksKey().MatchString(text):
		return kindHooks
	case clientsKey().MatchString(text):
		return kindClients
	case selected().MatchString(text):
		return kindSelection
	case arrays().MatchString(text):
		return kindScript
	}
	return kindKubernetes
}

func (c *importer) importMIG(of [kinds][]File) (string, []string, error) {
	fail := func() (string, []string, error) {
		return "", nil, source.NewErrors(source.Sort(c.Problems, of[kindConfig][0].Name)...)
	}
	root, broken := c.parse(of[kindConfig][0])
	if broken != nil {
		c.Problems = append(c.Problems, *broken)
		return fail()
	}
	cfg := c.readMIGParted(root)
	if len(c.Problems) == 0 && len(cfg.Profiles) == 0 {
		for _, name := range slices.Sorted(maps.Keys(c.LeftOut)) {
			c.Problems = append(c.Problems, c.LeftOut[name]...)
		}
	}
	for _, f := range of[kindHooks] {
		c.hooks(f, cfg, len(of[kindScript]) > 0)
	}
	for _, f := range of[kindScript] {
		for _, at := range arrays().FindAllSubmatchIndex(f.Text, -1) {
			line := 1 + strings.Count(string(f.Text[:at[2]]), "\n")
			for i, text := range strings.Split(string(f.Text[at[2]:at[3]]), "\n") {
				text, _, _ = strings.Cut(text, "#")
				for _, name := range strings.Fields(text) {
					c.client(cfg, &source.Node{File: f.Name, Line: line + i}, strings.Trim(name, `"'`))
				}
			}
		}
	}
	for _, f := range of[kindClients] {
		c.addClients(f, cfg)
	}
	for _, f := range of[kindSelection] {
		c.taken(f, cfg)
	}
	if len(c.Problems) > 0 {
		return fail()
	}
	return migPartedHead(cfg) + config.Format(cfg), c.Warnings, nil
}

// taken selects the profile that the service had selected. The last assignment is the effective one.
func (c *importer) taken(f File, cfg *config.Config) {
	all := selected().FindAllSubmatchIndex(f.Text, -1)
	at := all[len(all)-1]
	name := strings.TrimSpace(string(f.Text[at[2]:at[3]]))
	n := &source.Node{File: f.Name, Line: 1 + strings.Count(string(f.Text[:at[0]]), "\n"), Value: name}
	_, common := partition.Predefined(name)
	_, defined := cfg.Profiles[name]
	switch {
	case name == "":
		return
	case defined || common && c.LeftOut[name] == nil:
		cfg.Selected = name
	case c.LeftOut[name] != nil:
		c.Problems = append(c.Problems, c.LeftOut[name]...)
	default:
		c.Fail(n, "MIG_PARTED_SELECTED_CONFIG", rule.NoProfile(name, cfg.Names()))
	}
}

// hooks adds the units that hooks stop or start to the clients, and warns of other hooks. known is set
// if the script of the usual hooks is imported, too.
func (c *importer) hooks(f File, cfg *config.Config, known bool) {
	root, broken := c.parse(f)
	if broken != nil {
		c.Problems = append(c.Problems, *broken)
		return
	}
	stages := source.Children(root.At("hooks"))
	for _, stage := range stages.Keys() {
		for _, hook := range stages[stage].Items() {
			c.hook(hook, stage, cfg, known)
		}
	}
}

// needlessHook matches the usual hooks that dcm replaces.
func needlessHook() *regexp.Regexp { return regexp.MustCompile(`^(apply-start|refresh-cdi)\b`) }

func (c *importer) hook(hook *source.Node, stage string, cfg *config.Config, known bool) {
	command, _ := hook.At("command").Text()
	words := []string{command}
	for _, arg := range hook.At("args").Items() {
		text, _ := arg.Text()
		words = append(words, text)
	}
	line := strings.Join(words, " ")
	_, script, usual := strings.Cut(line, "hooks.sh; ")
	units := controlled(line)
	for _, name := range units {
		c.client(cfg, hook, name)
	}
	switch {
	case len(units) > 0 || usual && (known || needlessHook().MatchString(script)):
	case usual:
		c.Warn(hook, "the hook %s runs hooks.sh, which names units. hint: import that file, too", stage)
	default:
		c.Warn(hook, "the hook %s is not imported: it runs %s; units that have a GPU open belong in [clients]", stage, source.QuoteShort(line))
	}
}

func systemctl() *regexp.Regexp {
	return regexp.MustCompile(`\bsystemctl\b((?: +-[-a-z=]+)*) +(?:stop|start|restart|try-restart)((?: +[-\w.@:\\]+)+)`)
}

// controlled returns the units that a command line stops or starts with systemctl.
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

// noClients returns units that mig-parted's users stop, and the reasons why they are not clients.
func noClients() map[string]string {
	const ordered = "dcm works while it runs"
	return map[string]string{
		"kubelet.service":              "it has no GPU open, and a stop of it stops no process that has one open",
		"nvidia-persistenced.service":  ordered,
		"nvidia-fabricmanager.service": ordered,
		"nvidia-imex.service":          ordered,
		"nvidia-cdi-refresh.service":   "dcm starts it after a change",
		"nvidia-mig-manager.service":   "dcm takes its place",
	}
}

// client adds a unit to the clients, once.
func (c *importer) client(cfg *config.Config, at *source.Node, name string) {
	stem := strings.TrimSuffix(name, ".service")
	if why := noClients()[stem+".service"]; why != "" {
		c.Warn(at, "%s.service is not made a client: %s", stem, why)
		return
	}
	full, f := rule.ParseUnit(name)
	if f != nil {
		c.Warn(at, "%s is not imported: %s", source.QuoteShort(name), f)
		return
	}
	if !slices.Contains(cfg.Clients, full) {
		cfg.Clients = append(cfg.Clients, full)
	}
}

func unusable(c *config.Config) []string { return slices.Sorted(maps.Keys(c.Unusable)) }

func (c *importer) parse(f File) (*source.Node, *source.Problem) {
	return parseYAML(f.Name, string(f.Text), f.at)
}
