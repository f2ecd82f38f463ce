package packaging_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// make says of a target without a rule that there is nothing to be done, and that it went
// well.
func TestMakefile_EveryTargetHasRule(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	readme := read(t, "../README.md") + read(t, "../HACKING.md")
	does := make(map[string]bool)
	lines := strings.Split(string(makefile), "\n")
	for i, line := range lines[:len(lines)-1] {
		name, needs, ok := strings.Cut(line, ":")
		if ok && !strings.ContainsAny(name, " \t#") && !strings.Contains(needs, "=") {
			does[name] = does[name] || strings.TrimSpace(needs) != "" || strings.HasPrefix(lines[i+1], "\t")
		}
	}
	var named []string
	for _, phony := range regexp.MustCompile(`(?m)^\.PHONY:(.*)$`).FindAllStringSubmatch(string(makefile), -1) {
		named = append(named, strings.Fields(phony[1])...)
	}
	for _, match := range regexp.MustCompile("`make ([a-z-]+)`").FindAllStringSubmatch(readme, -1) {
		named = append(named, match[1])
	}
	if len(named) < 30 {
		t.Errorf("only %d targets found: %q", len(named), named)
	}
	for _, name := range named {
		if !does[name] {
			t.Errorf("make %s does nothing", name)
		}
	}
}
