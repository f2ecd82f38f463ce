package e2e_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/e2e"
	"dcm/internal/testkit/e2e/remote"
	"dcm/internal/testkit/e2e/webdriver"
	"dcm/internal/testkit/testdeadline"
)

// cockpitConf permits connections from the same host without a certificate.
const cockpitConf = "[WebService]\nAllowUnencrypted=true\n"

// inFrame selects the frame in which Cockpit shows a page.
const inFrame = `iframe[name="cockpit1:localhost/dcm"]`

// TestPage tests the page in Cockpit with a browser. It is not part of make test, because its
// root is several times as large as the others.
func TestPage(t *testing.T) {
	if os.Getenv("DCM_PAGE") == "" {
		t.Skip("the page is tried by make test-page, which sets DCM_PAGE")
	}
	requireContainers(t)
	p := buildProduct(t)
	seed, err := e2e.Node("mi300x-8", p.sim)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(seed, e2e.Seed{
		"/etc/e2e/kind":             {Content: []byte("KIND=mi300x-8\nSIM_OPTIONS=--mig=" + e2e.MIGState + " --switch-latency=500ms --reload-latency=2s\n")},
		"/etc/cockpit/cockpit.conf": {Content: []byte(cockpitConf)},
		"/root/dcm.deb":             {Content: only(t, p.packages+"/dcm_*_amd64.deb")},
		"/root/cockpit-dcm.deb":     {Content: only(t, p.packages+"/cockpit-dcm_*_all.deb")},
	})
	m := boot(t, e2e.Page("trixie"), p.agent, seed)
	m.run("dpkg --install /root/dcm.deb /root/cockpit-dcm.deb")
	m.ready()
	m.run("useradd --create-home --shell /bin/bash --groups sudo ada; echo ada:geheim | chpasswd")
	m.run("systemctl start cockpit.socket; systemd-run --quiet --unit=driver chromedriver --port=9515")
	m.run("curl --silent --retry 60 --retry-all-errors --retry-delay 1 http://127.0.0.1:9515/status")

	b := m.browser()
	b.readOnly()
	b.administrator()
	b.plans()
	b.applies()
	b.refused()
	b.byKeyboard()
	b.inTheDark()
}

// browser is a browser in the machine. Its errors fail the test.
type browser struct {
	machine
	s *webdriver.Session
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
	b.does(func(ctx context.Context) error { return b.s.Size(ctx, 1500, 1750) })
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
		b.s.Read(b.t.Context(), "return document.body.innerText", &page)
		b.t.Logf("text of the page:\n%s", page)
	}
	b.t.Fatal(err)
}

func (b browser) await(expression string) {
	b.t.Helper()
	b.does(func(ctx context.Context) error { return b.s.Await(ctx, expression) })
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

// picture stores a picture if the environment variable for it is set.
func (b browser) picture(name string) {
	b.t.Helper()
	dir := os.Getenv("DCM_PAGE")
	if !filepath.IsAbs(dir) {
		return
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

// page goes to the page, and waits until it shows the node.
func (b browser) page() {
	b.t.Helper()
	b.does(func(ctx context.Context) error { return b.s.Frame(ctx, "") })
	b.await(`document.querySelector('` + inFrame + `')`)
	b.does(func(ctx context.Context) error { return b.s.Frame(ctx, inFrame) })
	b.await(`document.querySelectorAll("#gpus > li").length == 8 && document.querySelectorAll(".dcm-profile").length > 3`)
}

// logout drops the session, like a restart of the browser.
func (b browser) logout() {
	b.t.Helper()
	b.does(func(ctx context.Context) error { return b.s.Frame(ctx, "") })
	b.does(func(ctx context.Context) error { return b.s.Forget(ctx) })
}

// choose selects a profile and waits for its plan.
func (b browser) choose(profile string) {
	b.t.Helper()
	b.click(`input[value="` + profile + `"]`)
	b.planned(profile)
}

func (b browser) planned(profile string) {
	b.t.Helper()
	b.await(`document.querySelector("#plan h2").textContent == "Plan for ` + profile + `" && document.querySelector("#steps")`)
}

// all returns an expression: each GPU is shown with the mode and this number of partitions.
func all(mode string, parts string) string {
	return `document.querySelectorAll("#gpus > li[data-mode='` + mode + `']").length == 8 && document.querySelectorAll(".dcm-cell").length == 8 * ` + parts
}

// readOnly: without administrative access the page shows everything and permits no change.
func (b browser) readOnly() {
	b.t.Helper()
	b.login("none")
	b.await(all("CPX/NPS1", "8"))
	b.choose("spx-fast")
	if got := b.read(`document.querySelector("#apply").ariaDisabled`); got != "true" {
		b.t.Errorf("a user who may not apply a profile has an enabled button")
	}
	if got := b.read(`document.querySelector("#apply-why").textContent`); !strings.Contains(got, "administrative access") {
		b.t.Errorf("the reason is %q", got)
	}
	b.picture("1-read-only")
	b.logout()
}

func (b browser) administrator() {
	b.t.Helper()
	b.login("any")
	b.await(`document.querySelector("#access").textContent == ""`)
	b.await(all("CPX/NPS1", "8"))
	b.await(`document.querySelector("#history tbody tr")`)
	b.await(`[...document.querySelectorAll(".dcm-profile > .dcm-note")].every(n => n.textContent && n.textContent != "…")`)
	b.picture("2-node")
	// An open page makes no calls while nothing changes.
	if asked := b.try("timeout 3 busctl monitor " + busName + " | grep Member="); asked.Stdout != "" {
		b.t.Errorf("calls on the bus without a change: %s", asked.Stdout)
	}
}

// plans: the page names the units that a change restarts before the change.
func (b browser) plans() {
	b.t.Helper()
	before := b.units(exporter, agentUnit, "dcm.service")
	b.choose("cpx-nps4")
	if got := b.read(`document.querySelector("#steps").textContent`); !strings.Contains(got, "reload the driver") {
		b.t.Errorf("steps: want a reload of the driver, got %q", got)
	}
	if got := b.read(`document.querySelector("#restarts").textContent`); !strings.Contains(got, exporter) || !strings.Contains(got, agentUnit) {
		b.t.Errorf("restarts are %q", got)
	}
	b.picture("3-plan")
	b.untouched(before)
}

// applies: the page shows a change during and after it.
func (b browser) applies() {
	b.t.Helper()
	b.click("#apply")
	b.await(`document.querySelector(".dcm-run .dcm-steps li")`)
	b.picture("4-applying")
	b.await(all("CPX/NPS4", "8"))
	b.await(`!document.querySelector(".dcm-run") && document.querySelector("#history tbody tr").textContent.includes("applied")`)
	b.has(cpx)
	b.choose("spx-fast")
	b.click("#apply")
	b.await(`document.querySelector(".dcm-run .dcm-steps li.over")`)
	b.picture("5-switching")
	b.await(all("SPX/NPS1", "1"))
	b.has(spx)
	b.choose("cpx-fast")
	b.click("#apply")
	b.await(all("CPX/NPS1", "8"))
	b.has(partition.Mode{Compute: partition.CPX, Memory: "NPS1"})
}

// refused: the page names the holder of a GPU that blocks a change, with a hint.
func (b browser) refused() {
	b.t.Helper()
	b.run(`systemd-run --quiet --unit=training sh -c 'exec 3</dev/dri/renderD130 4</dev/kfd; exec sleep infinity'`)
	b.choose("spx-fast")
	b.click("#apply")
	b.await(`document.querySelector("#plan [role=alert] .dcm-hint")`)
	b.await(`document.querySelector("#holders").textContent.includes("` + training + `") && document.querySelector(".dcm-cell.held")`)
	if got := b.read(`document.querySelector("#plan [role=alert]").textContent`); !strings.Contains(got, training) {
		b.t.Errorf("the refusal is %q", got)
	}
	b.picture("6-refused")
	b.run("systemctl stop training")
	b.await(all("SPX/NPS1", "1")) // without an action, after the end of the holder
}

// byKeyboard: a change can be made with the keyboard only.
func (b browser) byKeyboard() {
	b.t.Helper()
	b.does(func(ctx context.Context) error { return b.s.Frame(ctx, inFrame) })
	b.read(`document.querySelector("#look").focus()`)
	press := func(keys ...webdriver.Key) {
		b.t.Helper()
		b.does(func(ctx context.Context) error { return b.s.Press(ctx, keys...) })
	}
	press(webdriver.Tab)
	if got := b.read(`document.activeElement.name`); got != "profile" {
		b.t.Errorf("focus after the button: got %q", got)
	}
	for range 20 {
		if b.read(`document.activeElement.value`) == "cpx-fast" {
			break
		}
		press(webdriver.Down)
	}
	b.planned("cpx-fast")
	press(webdriver.Tab)
	if got := b.read(`document.activeElement.id`); got != "apply" {
		b.t.Errorf("focus after the profiles: got %q", got)
	}
	b.picture("7-keyboard")
	press(webdriver.Enter)
	b.await(all("CPX/NPS1", "8"))
	b.await(`document.querySelector("#live").textContent.includes("cpx-fast")`)
}

// inTheDark: the page immediately follows Cockpit's light or dark style.
func (b browser) inTheDark() {
	b.t.Helper()
	ground := `getComputedStyle(document.body).backgroundColor`
	light := b.read(ground)
	b.run(`systemd-run --quiet --unit=training sh -c 'exec 3</dev/dri/renderD130 4</dev/dri/renderD131 5</dev/dri/renderD157; exec sleep infinity'`)
	b.does(func(ctx context.Context) error { return b.s.Frame(ctx, "") })
	b.read(`localStorage.setItem("shell:style", "dark") || window.dispatchEvent(new CustomEvent("cockpit-style", { detail: { style: "dark" } }))`)
	b.page()
	b.await(`document.documentElement.classList.contains("dcm-dark")`)
	if dark := b.read(ground); dark == light {
		b.t.Errorf("the style is the same in dark and light mode: %s", dark)
	}
	b.click("#look")
	b.await(`document.querySelector(".dcm-cell.held")`)
	b.picture("8-dark")
	b.run("systemctl stop training")
}
