package record

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Names are the names of hosts, users, units and processes that a text must not have.
type Names struct{ Hosts, Users, Units, Processes []string }

// kept are names that are facts of a GPU, even if a host or a user has the same.
func kept() []string {
	return []string{"", "localhost", "root", "nobody", "amd", "amdgpu", "nvidia", "gpu", "kfd", "dcm", "render", "video", "sys", "dev", "proc", "linux", "sysfs", "host", "user",
		"record", "driver", "version", "node", "nodes", "files", "name", "path", "text", "mode", "link", "error", "kernel", "arch", "date", "gpus", "calls", "library", "state"}
}

// Remove replaces each name by HOST, USER, UNIT or PROCESS where no letter or digit precedes or follows
// it. Of a unit it also replaces the name without the type.
func (n Names) Remove(text string) string {
	text = home.ReplaceAllString(text, "/home/USER")
	for _, unit := range n.Units {
		text = replaceWord(text, unit, "UNIT")
		if dot := strings.LastIndexByte(unit, '.'); dot > 0 {
			text = replaceWord(text, unit[:dot], "UNIT")
		}
	}
	for _, host := range n.Hosts {
		short, _, _ := strings.Cut(host, ".")
		text = replaceWord(replaceWord(text, host, "HOST"), short, "HOST")
	}
	for _, user := range n.Users {
		text = replaceWord(text, user, "USER")
	}
	for _, process := range n.Processes {
		text = replaceWord(text, process, "PROCESS")
	}
	return text
}

func replaceWord(text, name, by string) string {
	if slices.Contains(kept(), strings.ToLower(name)) {
		return text
	}
	word := regexp.MustCompile(`(?i)(^|[^0-9a-z])` + regexp.QuoteMeta(name) + `([^0-9a-z]|$)`)
	// Two names with one character between them need two passes.
	return word.ReplaceAllString(word.ReplaceAllString(text, "${1}"+by+"${2}"), "${1}"+by+"${2}")
}

// People returns the names of the users of people in a passwd file, not those of the system.
func People(passwd string) []string {
	const first, last = 1000, 60000
	var out []string
	for line := range strings.Lines(passwd) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) < 3 {
			continue
		}
		if id, err := strconv.Atoi(fields[2]); err == nil && id >= first && id < last {
			out = append(out, fields[0])
		}
	}
	return out
}
