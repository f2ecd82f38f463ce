package packaging_test

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// What the page says to be tested is tested by something of that name.
func TestGuarantees_NameTests(t *testing.T) {
	need(t, "grep")
	page := strings.ReplaceAll(read(t, "man/dcm-guarantees.7"), `\-`, "-")
	names := regexp.MustCompile(`\b(TestNode/[a-z]+|Test[A-Z]\w+|Fuzz\w+)`).FindAllString(page, -1)
	if len(names) < 10 {
		t.Fatalf("the page names %q", names)
	}
	for _, name := range names {
		pattern := "^func " + name + "("
		if part, ok := strings.CutPrefix(name, "TestNode/"); ok {
			pattern = `t.Run("` + part + `"`
		}
		if err := exec.Command("grep", "-rq", "--include=*_test.go", pattern, "../internal", "../cmd", ".").Run(); err != nil {
			t.Errorf("there is no %s: %v", name, err)
		}
	}
	for _, command := range regexp.MustCompile(`(?m)^go test -(?:run|fuzz) (\S+) \./(\S+)$`).FindAllStringSubmatch(page, -1) {
		name, dir := command[1], command[2]
		if err := exec.Command("grep", "-q", "^func "+name+"(", "-r", "--include=*_test.go", "../"+dir).Run(); err != nil {
			t.Errorf("%s has no %s", dir, name)
		}
	}
}
