package packaging_test

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func page(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, kind := range []string{"js", "css", "html", "json"} {
		files, err := filepath.Glob("cockpit/*." + kind)
		if err != nil || len(files) == 0 {
			t.Fatalf("no %s: %v", kind, err)
		}
		all = append(all, files...)
	}
	return all
}

func TestPage_EveryFilePacked(t *testing.T) {
	recipe := read(t, "cockpit/nfpm.yaml")
	for _, file := range page(t) {
		if !strings.Contains(recipe, "  - src: packaging/"+file+"\n    dst: /usr/share/cockpit/dcm/"+filepath.Base(file)+"\n") {
			t.Errorf("the package lacks %s", file)
		}
	}
	var manifest struct {
		Menu map[string]struct{ Label string }
	}
	if err := json.Unmarshal([]byte(read(t, "cockpit/manifest.json")), &manifest); err != nil || manifest.Menu["index"].Label == "" {
		t.Errorf("Cockpit's menu has %+v, %v", manifest.Menu, err)
	}
}

// What dcm shows has names of processes, units and files that anybody can choose.
func TestPage_NoMarkupFromText(t *testing.T) {
	markup := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|\beval\b|new Function|srcdoc`)
	inline := regexp.MustCompile(`<script>|<style|\sstyle=|\son[a-z]+=|https?://`)
	for _, file := range page(t) {
		text := read(t, file)
		if found := markup.FindString(text); found != "" {
			t.Errorf("%s has %s", file, found)
		}
		if found := inline.FindString(text); strings.HasSuffix(file, ".html") && found != "" {
			t.Errorf("%s has %q, which Cockpit's policy does not allow", file, found)
		}
		for _, forbidden := range []string{"cockpit.spawn", "cockpit.script", "cockpit.file", "setInterval"} {
			if strings.Contains(text, forbidden) {
				t.Errorf("%s has %s: the page only calls D-Bus methods, after a signal", file, forbidden)
			}
		}
	}
}

func TestPage_Modules(t *testing.T) {
	need(t, "node")
	if out, err := exec.Command("node", "--version").Output(); err != nil || !regexp.MustCompile(`^v(2\d|[3-9]\d|\d{3})\.`).Match(out) {
		t.Skipf("node is %s, older than what can run the page's tests: %v", out, err)
	}
	for _, file := range page(t) {
		if !strings.HasSuffix(file, ".js") || strings.Contains(file, "/po.") {
			continue
		}
		check := exec.Command("node", "--input-type=module", "--check")
		check.Stdin = strings.NewReader(read(t, file))
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", file, err, out)
		}
	}
	if out, err := exec.Command("node", "--test", "cockpit/test/").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
