package packaging_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// changelog runs changelog.sh for a build that is not released.
func changelog(t *testing.T, format string) string {
	t.Helper()
	cmd := exec.Command("./changelog.sh", format, "dcm")
	cmd.Env = append(os.Environ(), "VERSION=0.1.0+7.g0123abcd", "SOURCE_DATE_EPOCH=1795867200", "MAINTAINER=Ada Example <ada@publisher.example>")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("changelog.sh %s: %v\n%s", format, err, out)
	}
	return string(out)
}

// items returns the list items of CHANGELOG.md as one line each, without backquotes.
func items(t *testing.T) []string {
	t.Helper()
	text := strings.ReplaceAll(read(t, "../CHANGELOG.md"), "`", "")
	var found []string
	for _, item := range regexp.MustCompile(`(?m)^- .*(\n  .*)*`).FindAllString(text, -1) {
		found = append(found, strings.Join(strings.Fields(item)[1:], " "))
	}
	if len(found) < 40 {
		t.Fatalf("CHANGELOG.md: got %d items, want at least 40", len(found))
	}
	return found
}

func TestChangelog_EveryItemInPackages(t *testing.T) {
	for _, format := range []string{"deb", "rpm"} {
		words := strings.Join(strings.Fields(changelog(t, format)), " ")
		for _, item := range items(t) {
			if !strings.Contains(words, item) {
				t.Errorf("%s lacks %q", format, item)
			}
		}
	}
}

// The forms that changelog.sh and release.sh read.
func TestChangelog_Form(t *testing.T) {
	line := regexp.MustCompile(`^(|# Changelog|## Unreleased|## \d+\.\d+\.\d+ - \d{4}-\d\d-\d\d|### .+|- .+|  \S.*|[A-Za-z].*)$`)
	for i, text := range strings.Split(read(t, "../CHANGELOG.md"), "\n") {
		if !line.MatchString(text) {
			t.Errorf("CHANGELOG.md:%d: got %q, want a heading, an item, or two spaces and its next line", i+1, text)
		}
	}
}

func TestChangelog_Debian(t *testing.T) {
	need(t, "dpkg-parsechangelog")
	cmd := exec.Command("dpkg-parsechangelog", "--file", "-", "--all")
	cmd.Stdin = strings.NewReader(changelog(t, "deb"))
	var warnings strings.Builder
	cmd.Stderr = &warnings
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("dpkg-parsechangelog: %v\n%s", err, &warnings)
	}
	for _, want := range []string{"Version: 0.1.0+7.g0123abcd-1\n", "Maintainer: Ada Example <ada@publisher.example>\n", "Date: Sat, 28 Nov 2026 12:00:00 +0000\n"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("got\n%s\nwant %q", out, want)
		}
	}
	if warnings.Len() > 0 {
		t.Errorf("%s", &warnings)
	}
}

// What only the publisher knows is in the file publisher.
func TestTexts_NoPlaceholder(t *testing.T) {
	cmd := exec.Command("git", "-c", "safe.directory=*", "grep", "-nE", `git clone REPOSITORY|dcm\.example|registry\.example|maintainers@`, "--", "..", ":!../*_test.go")
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Errorf("placeholders:\n%s", out)
	} else if code := cmd.ProcessState.ExitCode(); code != 1 {
		t.Skipf("git grep: %v\n%s", err, out)
	}
}
