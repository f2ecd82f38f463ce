package e2e_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"dcm/internal/testkit/e2e/remote"
	"dcm/internal/testkit/e2e/webdriver"
	"dcm/internal/testkit/testdeadline"
)

// cockpitConf permits connections from the same host without a certificate.
const cockpitConf = "[WebService]\nAllowUnencrypted=true\n"

// inFrame selects the frame in which Cockpit shows a page.
const inFrame = `iframe[name="cockpit1:localhost/dcm"]`

// browser is a browser in the machine. Its errors fail the test.
type browser struct {
	machine
	s     *webdriver.Session
	axe   []byte // the program of axe-core
	suite string
}

func (m machine) browser() browser {
	m.t.Helper()
	ask := func(ctx context.Context, method, path string, body []byte) ([]byte, error) {
		r, err := remote.Run(ctx, m.Shared("agent.sock"), remote.Command{Stdin: body, Argv: []string{
			"curl", "--silent", "--show-error", "--request", method, "--header", "Content-Type: application/json", "--data-binary", "@-", "http://127.0.0.1:9515" + path,
		}})
		return []byte(r.Stdout), err
	}
	b := browser{machine: m}
	b.does(func(ctx context.Context) (err error) {
		b.s, err = webdriver.New(ctx, ask, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
			"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
			"--hide-scrollbars", "--user-data-dir="+m.run("mktemp --directory"))
		return err
	})
	m.t.Cleanup(func() {
		ctx, cancel := testdeadline.Context(context.Background(), waitTimeout)
		defer cancel()
		if err := b.s.Close(ctx); err != nil {
			m.t.Log(err)
		}
	})
	b.does(func(ctx context.Context) error { return b.s.Size(ctx, 1500, 2900) })
	return b
}

// does runs an action of the browser, for at most waitTimeout.
func (b browser) does(what func(context.Context) error) {
	b.t.Helper()
	ctx, cancel := testdeadline.Context(b.t.Context(), waitTimeout)
	defer cancel()
	err := what(ctx)
	if err == nil {
		return
	}
	if b.s != nil {
		b.picture("failure")
		var page string
		b.s.Read(b.t.Context(), "return `visibility: ${document.visibilityState}, hidden in Cockpit: ${window.cockpit?.hidden}\\n` + document.body.innerText", &page)
		b.t.Logf("text of the page:\n%s", page)
		var problems any
		b.s.Read(b.t.Context(), "return window.problems", &problems)
		b.t.Logf("errors of the page: %v", problems)
	}
	b.t.Fatal(err)
}

func (b browser) await(expression string) {
	b.t.Helper()
	b.does(func(ctx context.Context) error {
		if err := b.s.Await(ctx, expression); err != nil {
			return fmt.Errorf("%s: %w", expression, err)
		}
		return nil
	})
}

func (b browser) click(selector string) {
	b.t.Helper()
	b.does(func(ctx context.Context) error { return b.s.Click(ctx, selector) })
}

func (b browser) read(expression string) (text string) {
	b.t.Helper()
	b.does(func(ctx context.Context) error { return b.s.Read(ctx, "return String("+expression+")", &text) })
	return text
}

// picture tests the accessibility of the page, and stores a picture if the environment variable for
// it is set.
func (b browser) picture(name string) {
	b.t.Helper()
	b.await(`document.querySelector("#plan").ariaBusy != "true"`)
	b.accessible(name)
	if got := b.read(`window.problems || ""`); got != "" {
		b.t.Errorf("%s: errors of the page: %s", name, got)
	}
	b.shot(name)
}

// shot stores a picture if the environment variable for it is set.
func (b browser) shot(name string) {
	b.t.Helper()
	dir := os.Getenv("DCM_PAGE")
	if !filepath.IsAbs(dir) {
		return
	}
	if b.suite != "" && b.suite != "trixie" {
		name += "-" + b.suite
	}
	var at any
	b.s.Read(b.t.Context(), "return window.scrollTo(0, 0)", &at)
	png, err := b.s.Picture(b.t.Context())
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644)
	}
	if err != nil {
		b.t.Error(err)
	}
}

// accessible reports what axe-core finds in the page.
func (b browser) accessible(name string) {
	b.t.Helper()
	if b.read("Boolean(window.axe)") != "true" {
		b.does(func(ctx context.Context) error { return b.s.Read(ctx, string(b.axe)+"\nreturn null", new(any)) })
	}
	b.read("(window.axeFound = null, axe.run().then(r => { window.axeFound = r.violations; document.body.dataset.axe = performance.now(); }, e => { window.axeFound = String(e); }), 0)")
	b.await("window.axeFound")
	found := b.read(`window.axeFound.map(v => v.id + ": " + v.help + ": " + v.nodes.map(n => n.html + " " + n.any.map(a => a.message)).join("; ")).join("\n")`)
	if found != "" {
		b.t.Errorf("%s: axe-core finds:\n%s", name, found)
	}
}

// axeCore returns the program of axe-core, which npm installs.
func axeCore(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "npm", "install", "--no-audit", "--no-fund", "--prefix", dir, "axe-core@4")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm: %v\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(dir, "node_modules/axe-core/axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// login logs in as ada, with administrative access or without.
func (b browser) login(access string) {
	b.t.Helper()
	b.does(func(ctx context.Context) error { return b.s.Open(ctx, "http://localhost:9090/dcm") })
	b.await(`document.querySelector("#login-user-input")?.offsetParent`)
	b.read(`localStorage.setItem("superuser:ada", "` + access + `")`)
	b.does(func(ctx context.Context) error { return b.s.Type(ctx, "#login-user-input", "ada") })
	b.does(func(ctx context.Context) error {
		return b.s.Type(ctx, "#login-password-input", "geheim"+webdriver.Enter)
	})
	b.page()
}

// page goes to the page, and waits until it shows the state of dcm.
func (b browser) page() {
	b.t.Helper()
	b.frame()
	b.await(`!document.body.classList.contains("loading")`)
}

// frame goes to the page.
func (b browser) frame() {
	b.t.Helper()
	b.does(func(ctx context.Context) error { return b.s.Frame(ctx, "") })
	b.await(`document.querySelector('` + inFrame + `')`)
	b.does(func(ctx context.Context) error { return b.s.Frame(ctx, inFrame) })
	b.await(`document.querySelector("#loading")`)
	b.read(catchErrors)
}

// catchErrors records the errors of the page's scripts, which Cockpit does not show.
const catchErrors = `(window.problems ??= (() => {
	const all = [];
	addEventListener("error", event => all.push(event.message));
	addEventListener("unhandledrejection", event => all.push(String(event.reason?.stack || event.reason)));
	return all;
})())`

// reload loads the page again, and waits until it shows the state of dcm.
func (b browser) reload() {
	b.t.Helper()
	b.does(func(ctx context.Context) error { return b.s.Open(ctx, "http://localhost:9090/dcm") })
	b.page()
}

// logout drops the session, like a restart of the browser.
func (b browser) logout() {
	b.t.Helper()
	b.does(func(ctx context.Context) error { return b.s.Frame(ctx, "") })
	b.does(func(ctx context.Context) error { return b.s.Forget(ctx) })
}
