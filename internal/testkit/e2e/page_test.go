package e2e_test

import (
	"context"
	"maps"
	"os"
	"strings"
	"testing"

	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/e2e"
	"dcm/internal/testkit/e2e/webdriver"
)

// TestPage tests the page in Cockpit with a browser. It is not part of make test, because its
// roots are several times as large as the others.
func TestPage(t *testing.T) {
	if os.Getenv("DCM_PAGE") == "" {
		t.Skip("the page is tried by make test-page, which sets DCM_PAGE")
	}
	requireContainers(t)
	p := buildProduct(t)
	axe := axeCore(t)
	t.Run("Cockpit 337", func(t *testing.T) {
		b := openPage(t, p, axe, "trixie", "mi300x-8", nil)
		b.readOnly()
		b.administrator()
		b.plans()
		b.applies()
		b.refused()
		b.byKeyboard()
		b.use()
		b.looks()
		b.partitionsWithoutPointer()
		b.wrong()
		b.withoutDaemon()
	})
	t.Run("Cockpit 287", func(t *testing.T) {
		b := openPage(t, p, axe, "bookworm", "mi300x-8", nil)
		b.readOnly()
		b.administrator()
		b.plans()
		b.applies()
		b.refused()
		b.byKeyboard()
		b.use()
		b.looks()
	})
	t.Run("leases", func(t *testing.T) { openPage(t, p, axe, "trixie", "mi300x-8", driverless()).allocations() })
	t.Run("two vendors", func(t *testing.T) { openPage(t, p, axe, "trixie", "mi300x-4+h100-4", nvidiaSeed(t)).mixed() })
	t.Run("no GPUs", func(t *testing.T) {
		openPage(t, p, axe, "trixie", "mi300x-8", e2e.Seed{"/etc/systemd/system/e2e-node.service": {Link: "/dev/null"}}).withoutGPUs()
	})
}

// openPage boots a node with Cockpit of a Debian release, and opens a browser in it.
func openPage(t *testing.T, p product, axe []byte, suite, kind string, more e2e.Seed) browser {
	t.Helper()
	seed, err := e2e.Node(kind, p.sim)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(seed, e2e.Seed{
		simulated:                   {Content: []byte("KIND=" + kind + "\nSIM_OPTIONS=--mig=" + e2e.MIGState + " --switch-latency=500ms --reload-latency=2s\n")},
		"/etc/cockpit/cockpit.conf": {Content: []byte(cockpitConf)},
		"/etc/hosts":                {Content: []byte("127.0.0.1 localhost\n")}, // for the browser's driver; the root of Debian 12 has none
		// A stopped daemon is one of the states. systemd must not restart it, however long its picture takes.
		"/etc/systemd/system/dcm.service.d/page.conf": {Content: []byte("[Service]\nWatchdogSec=infinity\n")},
		"/root/dcm.deb":         {Content: only(t, p.packages+"/dcm_*_amd64.deb")},
		"/root/cockpit-dcm.deb": {Content: only(t, p.packages+"/cockpit-dcm_*_all.deb")},
	})
	maps.Copy(seed, more)
	m := boot(t, e2e.Page(suite), p.agent, seed)
	m.run("dpkg --install /root/dcm.deb /root/cockpit-dcm.deb")
	m.run("useradd --create-home --shell /bin/bash --groups sudo,dcm ada; echo ada:geheim | chpasswd")
	m.run("systemctl start cockpit.socket; systemd-run --quiet --unit=driver chromedriver --port=9515")
	m.run("curl --silent --retry 60 --retry-all-errors --retry-delay 1 http://127.0.0.1:9515/status")
	b := m.browser()
	b.axe, b.suite = axe, suite
	return b
}

// choose selects a profile and waits for its plan.
func (b browser) choose(profile string) {
	b.t.Helper()
	b.click(`input[value="` + profile + `"]`)
	b.planned(profile)
}

func (b browser) planned(profile string) {
	b.t.Helper()
	b.await(`document.querySelector("#plan h2").textContent == "Plan for ` + profile + `" && document.querySelector("#steps") && document.querySelector("#plan").ariaBusy == "false"`)
}

// all returns an expression: each GPU is shown with the mode and this number of partitions.
func all(mode string, parts string) string {
	return `document.querySelectorAll("#gpus > li[data-mode='` + mode + `']").length == 8 && document.querySelectorAll(".dcm-cell:not(.planned)").length == 8 * ` + parts
}

// readOnly: without administrative access the page shows everything and permits no change.
func (b browser) readOnly() {
	b.t.Helper()
	b.ready()
	b.stalled()
	b.login("none")
	b.await(all("CPX/NPS1", "8"))
	b.choose("spx-fast")
	if got := b.read(`document.querySelector("#apply").ariaDisabled`); got != "true" {
		b.t.Errorf("a user who may not apply a profile has an enabled button")
	}
	if got := b.read(`document.querySelector("#apply-why").textContent`); !strings.Contains(got, "administrative access") {
		b.t.Errorf("the reason is %q", got)
	}
	b.picture("02-read-only")
	b.logout()
}

func (b browser) administrator() {
	b.t.Helper()
	b.login("any")
	b.await(`document.querySelector("#access").textContent == ""`)
	b.await(all("CPX/NPS1", "8"))
	b.await(`document.querySelector("#history tbody tr")`)
	b.await(`[...document.querySelectorAll(".dcm-profile > .dcm-note")].every(n => n.textContent && n.textContent != "…")`)
	b.await(`document.querySelector(".dcm-load").textContent.includes("0 MiB of 192 GiB used")`)
	b.picture("03-node")
	// While nothing changes an open page makes no calls but those for the use of the partitions.
	if asked := b.try("timeout 3 busctl monitor " + busName + " | grep Member= | grep -v -e Member=Usage -e Member=Queue"); asked.Stdout != "" {
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
	b.picture("04-plan")
	b.untouched(before)
}

// applies: the page shows a change during and after it.
func (b browser) applies() {
	b.t.Helper()
	b.click("#apply")
	b.await(`document.querySelector("#confirm").open && document.querySelector("#confirm-text").textContent.includes("` + exporter + `")`)
	b.picture("32-confirm-reload")
	b.click("#confirm-no")
	b.await(`!document.querySelector("#confirm").open && !document.querySelector(".dcm-run")`)
	b.has(partition.Mode{Compute: partition.CPX, Memory: "NPS1"})
	b.click("#apply")
	b.click("#confirm-yes")
	b.await(`document.querySelector(".dcm-run .dcm-steps li")`)
	b.picture("05-applying")
	b.await(all("CPX/NPS4", "8"))
	b.await(`!document.querySelector(".dcm-run") && document.querySelector("#history tbody tr").textContent.includes("applied")`)
	b.has(cpx)
	b.choose("spx-fast")
	b.click("#apply")
	b.click("#confirm-yes")
	b.await(`document.querySelector(".dcm-run .dcm-steps li.over")`)
	b.picture("06-switching")
	b.await(all("SPX/NPS1", "1"))
	b.has(spx)
	b.choose("cpx-fast")
	b.click("#until-reboot")
	b.click("#apply")
	b.await(all("CPX/NPS1", "8"))
	b.has(partition.Mode{Compute: partition.CPX, Memory: "NPS1"})
	b.await(`document.querySelector("#health").textContent.includes("Selected until reboot: cpx-fast") && document.querySelector("#apply").ariaDisabled`)
	b.run("dcm status | grep 'until reboot' && grep -q '^profile = \"spx-fast\"' /etc/dcm/dcm.toml")
	b.picture("33-until-reboot")
	b.click("#permanently")
	b.await(`!document.querySelector("#apply").ariaDisabled`)
	b.click("#apply")
	b.await(`document.querySelector("#health").textContent.includes("Selected: cpx-fast")`)
	b.run("grep -q '^profile = \"cpx-fast\"' /etc/dcm/dcm.toml")
}

// refused: the plan says beforehand that a holder would block the change. After a refusal the user can return
// to the former profile.
func (b browser) refused() {
	b.t.Helper()
	b.run(`systemd-run --quiet --unit=training sh -c 'exec 3</dev/dri/renderD130 4</dev/kfd; exec sleep infinity'`)
	b.choose("spx-fast")
	b.click("#look")
	b.await(`document.querySelector("#plan .pf-m-warning .dcm-hint") && document.querySelector("#apply").textContent.includes("when possible")`)
	b.await(`document.querySelector("#holders").textContent.includes("` + training + `") && document.querySelector(".dcm-cell.held")`)
	if got := b.read(`document.querySelector("#plan .pf-m-warning").textContent`); !strings.Contains(got, training) {
		b.t.Errorf("the plan does not name the holder: %q", got)
	}
	b.picture("07-would-be-refused")
	b.read(`(window.said = [], new MutationObserver(() => window.said.push(document.querySelector("#live").textContent)).observe(document.querySelector("#live"), { childList: true }))`)
	b.click("#apply")
	b.await(`document.querySelector("#keep") && document.querySelector("#health .dcm-hint") && document.querySelector("#health").textContent.includes("` + training + `")`)
	b.await(`window.said.some(text => text.includes("` + training + `"))`) // later texts follow it
	b.picture("08-refused")
	b.click("#keep")
	b.await(`document.querySelector("#verdict").textContent && !document.querySelector("#keep") && document.querySelector(".pf-m-green")`)
	b.has(partition.Mode{Compute: partition.CPX, Memory: "NPS1"})
	b.choose("spx-fast")
	b.await(`document.querySelector("#apply").textContent.includes("when possible")`)
	b.click("#apply")
	b.await(`document.querySelector("#keep")`)
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
	b.await(`document.getElementById("cell-0000:05:00.0-0") && !document.querySelector(".dcm-run")`)
	b.read(`document.querySelector("#look").focus()`)
	press(webdriver.Tab)
	if got := b.read(`document.activeElement.id`); got != "cell-0000:05:00.0-0" {
		b.t.Errorf("focus after the button: got %q, want the first partition", got)
	}
	press(webdriver.Enter)
	b.await(`document.querySelector("#part").matches(":popover-open") && document.activeElement.id == "part"`)
	press(webdriver.Escape)
	b.await(`!document.querySelector("#part").matches(":popover-open") && document.activeElement.id == "cell-0000:05:00.0-0"`)
	for range 20 {
		if b.read(`document.activeElement.name`) == "profile" {
			break
		}
		press(webdriver.Tab) // one stop for each GPU
	}
	for range 20 {
		if b.read(`document.activeElement.value`) == "cpx-fast" {
			break
		}
		press(webdriver.Down)
	}
	b.planned("cpx-fast")
	press(webdriver.Tab, webdriver.Tab) // "permanently or until reboot" is in between
	if got := b.read(`document.activeElement.id`); got != "apply" {
		b.t.Errorf("focus after the profiles: got %q", got)
	}
	b.picture("09-keyboard")
	press(webdriver.Enter)
	b.await(all("CPX/NPS1", "8"))
	b.await(`document.querySelector("#live").textContent.includes("cpx-fast")`)
}
