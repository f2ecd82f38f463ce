package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"dcm/internal/gpu/nvml/standin"
	"dcm/internal/testkit/e2e"
)

// stalled: until the daemon answers, the page shows only that it reads the state.
func (b browser) stalled() {
	b.t.Helper()
	b.login("none")
	b.run("systemctl kill --signal=STOP dcm.service")
	b.does(func(ctx context.Context) error { return b.s.Open(ctx, "http://localhost:9090/dcm") })
	b.frame()
	b.await(`document.body.classList.contains("loading") && document.querySelector("#loading").offsetParent && ![...document.querySelectorAll("main > section")].some(s => s.offsetParent)`)
	b.picture("01-loading")
	b.run("systemctl kill --signal=CONT dcm.service")
	b.page()
	b.logout()
}

// looks: the page follows the style, width and language of the browser and of Cockpit.
func (b browser) looks() {
	b.t.Helper()
	b.run(`systemd-run --quiet --unit=training sh -c 'exec 3</dev/dri/renderD130 4</dev/dri/renderD131 5</dev/dri/renderD157; exec sleep infinity'`)
	b.await(`document.querySelectorAll("#gpus > li").length == 8`)
	b.choose("spx-fast")
	b.click("#look")
	b.await(`document.querySelector(".dcm-cell.held")`)
	ground := `getComputedStyle(document.body).backgroundColor`
	light := b.read(ground)
	b.style("dark")
	b.await(`document.documentElement.classList.contains("pf-v6-theme-dark")`)
	if dark := b.read(ground); dark == light {
		b.t.Errorf("the style is the same in dark and light mode: %s", dark)
	}
	b.picture("10-dark")
	b.style("light")
	b.emulate("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "forced-colors", "value": "active"}}})
	b.await(`matchMedia("(forced-colors: active)").matches`)
	border := `[".held", ".free"].map(c => getComputedStyle(document.querySelector(".dcm-cell" + c)).borderTopStyle).join()`
	if got := b.read(border); got != "dotted,solid" { // background images are not drawn in this mode
		b.t.Errorf("borders of held and free partitions with forced colours: %s", got)
	}
	b.picture("11-forced-colours")
	b.emulate("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "forced-colors", "value": "none"}}})
	for _, width := range []int{390, 480, 640, 768, 1024, 1280, 1920} {
		b.emulate("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 3400, "deviceScaleFactor": 1, "mobile": false})
		b.await(fmt.Sprintf("window.top.innerWidth == %d", width))
		if over := b.read("document.documentElement.scrollWidth - document.documentElement.clientWidth"); over != "0" {
			b.t.Errorf("%d px: the page is %s px wider than the window", width, over)
		}
		if name, ok := map[int]string{390: "12-phone", 768: "13-tablet", 1920: "14-wide"}[width]; ok {
			b.picture(name)
		}
	}
	b.emulate("Emulation.clearDeviceMetricsOverride", map[string]any{})
	b.read(`(document.cookie = "CockpitLang=de-de; path=/", localStorage.setItem("cockpit.lang", "de-de"))`)
	b.reload()
	b.await(`document.querySelector("#gpus-title").textContent == "GPUs" && document.querySelector("#profiles-title").textContent == "Profile"`)
	b.click(`input[value="spx-fast"]`)
	b.await(`document.querySelector("#plan h2").textContent == "Plan für spx-fast" && document.querySelector("#steps")`)
	b.picture("15-german")
	b.read(`(document.cookie = "CockpitLang=en-us; path=/", localStorage.setItem("cockpit.lang", "en-us"))`)
	b.run("systemctl stop training")
	b.reload()
}

// style selects the style in Cockpit's menu.
func (b browser) style(name string) {
	b.t.Helper()
	b.does(func(ctx context.Context) error { return b.s.Frame(ctx, "") })
	b.read(`localStorage.setItem("shell:style", "` + name + `") || window.dispatchEvent(new CustomEvent("cockpit-style", { detail: { style: "` + name + `" } }))`)
	b.page()
}

func (b browser) emulate(command string, params map[string]any) {
	b.t.Helper()
	b.does(func(ctx context.Context) error { return b.s.Chrome(ctx, command, params) })
}

// use: each cell shows the numbers of dcm top, and a popover has the holders. A click, a touch and the
// keyboard open it.
func (b browser) use() {
	b.t.Helper()
	b.run(`systemd-run --quiet --unit=training sh -c 'exec 3</dev/dri/renderD130 4</dev/dri/renderD131 5</dev/kfd; exec sleep infinity'`)
	b.run(`for use in '"0000:05:00.0-2","busy":63' '"0000:05:00.0-3","busy":8'; do
	echo "{\"partition\":$use,\"pid\":$(systemctl show --value --property=MainPID training),\"vram\":16428249907}" >/run/dcm-sim/ctl/use; done`)
	cell := `document.getElementById("cell-0000:05:00.0-2")`
	b.await(cell + `.textContent.includes("15.3 GiB of 24 GiB used, 63 % busy") && ` + cell + `.querySelector(".dcm-used").style.height == "64%" && ` + cell + `.closest(".held")`)
	top := b.run("dcm top --once --all | grep 0000:05:00.0-2")
	if !hasAll(top, " 15.3G ", " 24G ", " 63 ", "training.service") {
		b.t.Errorf("dcm top has other numbers: %s", top)
	}
	b.await(`document.querySelector('[data-address="0000:05:00.0"] .dcm-load').textContent.startsWith("30.6 GiB of 192 GiB used")`)
	open := func() {
		b.t.Helper()
		b.click(`[id="cell-0000:05:00.0-2"]`)
		b.await(`document.querySelector("#part").matches(":popover-open")`)
		pid := strings.TrimSpace(b.run("systemctl show --value --property=MainPID training"))
		if text := b.read(`document.querySelector("#part").innerText`); !hasAll(text, "GPU 0, partition 2", "15.3 GiB of 24 GiB", "63 %", "/dev/dri/renderD130", training, "user root", pid, "since") {
			b.t.Errorf("the popover lacks something:\n%s", text)
		}
	}
	open()
	b.picture("34-partition")
	b.click("#part-close")
	b.await(`!document.querySelector("#part").matches(":popover-open")`)
	for name, width := range map[string]int{"35-partition-phone": 390, "36-partition-wide": 1920} {
		b.emulate("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 1700, "deviceScaleFactor": 1, "mobile": false})
		b.await(fmt.Sprintf("window.top.innerWidth == %d", width))
		open()
		if got := b.read(`(r => r.left >= 0 && r.right <= innerWidth && r.top >= 0)(document.querySelector("#part").getBoundingClientRect())`); got != "true" {
			b.t.Errorf("%d px: the popover is outside of the window", width)
		}
		b.picture(name)
		b.click("h1")
		b.await(`!document.querySelector("#part").matches(":popover-open")`)
	}
	b.emulate("Emulation.clearDeviceMetricsOverride", map[string]any{})
	b.run(`for part in 2 3; do echo "{\"partition\":\"0000:05:00.0-$part\",\"pid\":$(systemctl show --value --property=MainPID training),\"busy\":0,\"vram\":0}" >/run/dcm-sim/ctl/use; done; systemctl stop training`)
	b.await(`!document.querySelector(".dcm-cell.held")`)
}

// partitionsWithoutPointer: the list has each partition with its holder, for keyboard and touch.
func (b browser) partitionsWithoutPointer() {
	b.t.Helper()
	b.click("summary")
	b.await(`document.querySelectorAll("#partitions tbody tr").length == document.querySelectorAll(".dcm-cell:not(.planned)").length`)
	b.picture("16-partitions")
}

// wrong: the states with errors are shown as such.
func (b browser) wrong() {
	b.t.Helper()
	b.ready()
	b.reload()
	b.put(settings, selecting("cpx-fast")+"[profiles.tripled]\ncompute = \"TPX\"\n")
	b.await(`document.querySelector('input[value="tripled"]')?.parentElement.classList.contains("unfit")`)
	b.click(`input[value="tripled"]`)
	b.await(`document.querySelector("#plan [role=alert]") && !document.querySelector("#apply")`)
	b.picture("20-unsupported")

	b.put(settings, selecting("cpx-fast")+"[profiles.cpx-fast]\n")
	b.await(`document.querySelector("#health").textContent.includes("cpx-fast")`)
	b.choose("spx-fast")
	b.await(`document.querySelector("#plan .pf-m-warning")`)
	b.picture("21-configuration-error")

	b.put(settings, selecting("cpx-fast"))
	b.await(`!document.querySelector("#plan .pf-m-warning")`)
	b.run("dcm use none")
	b.await(`document.querySelector("#health").textContent.includes("No profile is selected")`)
	b.picture("22-nothing-selected")
	b.run("dcm use cpx-fast")

	b.await(`document.querySelector(".pf-m-green")`)
	b.run("dcm-sim fault --gpu 0000:c6:00.0 --op compute --errno EIO --times always")
	b.choose("spx-fast")
	b.await(`document.querySelector("#apply") && !document.querySelector("#apply").ariaDisabled`)
	runs := `document.querySelectorAll("#history tbody tr").length`
	before := b.read(runs)
	b.click("#apply")
	b.await(`document.querySelector(".dcm-card.bad") && document.querySelector("#keep") && !document.querySelector(".dcm-run")`)
	b.await(`document.querySelector("#apply").textContent == "Apply spx-fast"`)
	if after := b.read(runs + " - 1"); after != before { // the clients are stopped for one run only
		b.t.Errorf("after a permanent failure there are %s runs in addition to the failed one, before it %s", after, before)
	}
	b.picture("23-step-failed")
	b.run("dcm-sim fault --clear; dcm use cpx-fast")
	b.await(`!document.querySelector(".dcm-card.bad") && document.querySelector(".pf-m-green")`)

	b.put(settings, selecting("cpx-fast")+"[daemon]\ndrift = \"report\"\n")
	b.run("dcm apply; systemctl stop amd-metrics-exporter gpuagent dashboard; echo SPX >/sys/bus/pci/devices/0000:05:00.0/current_compute_partition")
	b.await(`document.querySelector(".dcm-card.moving")`)
	b.picture("24-changed-by-others")
	b.run("dcm apply; systemctl start amd-metrics-exporter gpuagent dashboard")
	b.await(`!document.querySelector(".dcm-card.moving")`)

	b.run("dcm-sim fault --gpu 0000:85:00.0 --vanish")
	b.await(`document.querySelector('[data-address="0000:85:00.0"]').textContent.includes("missing")`)
	if got := b.read(`[...document.querySelectorAll("#gpus h3")].map(h => h.firstChild.textContent).join()`); got != "GPU 0,GPU 1,GPU 2,GPU 3,GPU 4,GPU 5,GPU 6,GPU 7" {
		b.t.Errorf("the numbers of the GPUs are %s", got)
	}
	b.picture("25-missing-gpu")
}

// withoutDaemon: the page says how to start dcm, and connects when it is started.
func (b browser) withoutDaemon() {
	b.t.Helper()
	b.run("systemctl stop dcm")
	b.await(`document.body.classList.contains("gone") && document.querySelector("#health").textContent.includes("systemctl start dcm")`)
	b.picture("26-not-running")
	b.does(func(ctx context.Context) error { return b.s.Open(ctx, "http://localhost:9090/dcm") })
	b.page()
	b.picture("27-not-running-at-start")
	b.run("systemctl start dcm")
	b.await(`!document.body.classList.contains("gone") && document.querySelectorAll("#gpus > li").length == 8`)
}

// allocations: leases, the queue and reservations are shown, and a lease can be released.
func (b browser) allocations() {
	b.t.Helper()
	met := fmt.Sprintf(reserving, "cpx-fast", 3)
	b.put(settings, met)
	for _, name := range []string{"alpha", "beta@", "gamma", "big"} {
		b.put("/etc/systemd/system/"+name+".service", holder)
	}
	b.run("systemctl daemon-reload; systemctl restart dcm; dcm apply; systemctl start alpha beta@1 gamma")
	b.login("any")
	b.await(`document.querySelectorAll("#reservations tbody tr").length == 3`)
	b.await(`document.querySelectorAll(".dcm-cell.kept").length == 6 && document.querySelectorAll(".dcm-cell.kept.held").length == 6`)
	b.picture("17-reservations")
	b.click(`.dcm-cell.kept.held button`)
	b.await(`document.querySelector("#part").matches(":popover-open")`)
	if text := b.read(`document.querySelector("#part").innerText`); !strings.Contains(text, ".service\nsince ") && !strings.Contains(text, ".service\n\nsince ") {
		b.t.Errorf("the popover of a service that has no device open lacks its start:\n%s", text)
	}
	b.picture("38-partition-of-service")
	b.click("#part-close")
	b.put(settings, met+"[[reservation]]\nunit = \"big\"\npartitions = 60\n")
	b.await(`document.querySelector("#health").textContent.includes("reservation big cannot be met")`)
	b.picture("37-unmet-reservation")
	b.put(settings, met)
	b.await(`!document.querySelector("#health").textContent.includes("big")`)
	b.run(`setsid ` + ada + `dcm run -n 3 --time 2h -- sh -c 'echo held >/tmp/hers; exec sleep infinity' >/dev/null 2>&1 </dev/null &`)
	b.run(`setsid dcm run --gpus 1 --exclusive -- sh -c 'echo held >/run/roots; exec sleep infinity' >/dev/null 2>&1 </dev/null &`)
	b.await(`document.querySelectorAll("#leases tbody tr").length == 2 && document.querySelectorAll(".dcm-cell.held").length >= 11`)
	b.run(`setsid ` + ada + `dcm run -n 50 --wait --time 2h -- true >/dev/null 2>&1 </dev/null & ` + queued(1))
	b.await(`document.querySelector("#queue tbody tr")?.textContent.includes("ada")`)
	b.choose("qpx-fast")
	b.picture("18-leases-and-queue")
	b.click(`#leases tbody tr button`)
	b.await(`document.querySelectorAll("#leases tbody tr").length == 1`)
	b.picture("19-released")
	b.run(`for l in $(systemctl list-units --plain --no-legend "dcm-lease-*.scope" | cut -d" " -f1); do dcm release $l; done`)
}

// mixed: the GPUs of two vendors are distinguished, and MIG is drawn.
func (b browser) mixed() {
	b.t.Helper()
	group := "[[profiles.%s.group]]\ncompute = %q\ncount = \"rest\"\n[[profiles.%[1]s.group]]\nmig = { %[3]s }\ncount = \"rest\"\n"
	b.put(settings, "profile = \"both\"\n[clients]\nunits = [\"amd-metrics-exporter\", \"gpuagent\"]\n"+fmt.Sprintf(group, "both", "CPX", `"4g.40gb" = 1, "3g.40gb" = 1`)+fmt.Sprintf(group, "small", "QPX", `"2g.20gb" = 2, "1g.10gb" = 3`))
	b.run("systemctl restart dcm; dcm apply")
	b.login("any")
	b.await(`document.querySelectorAll("#gpus > li").length == 8 && document.querySelector(".parts-slice")`)
	b.choose("small")
	b.picture("28-two-vendors")
	b.click("#apply")
	for _, vendor := range []string{"AMD", "NVIDIA"} {
		b.await(`[...document.querySelectorAll(".dcm-card.moving h3")].some(h => document.querySelector(".dcm-run .over") && h.textContent.startsWith("` + vendor + `"))`)
	}
	b.shot("29-two-vendors-applying")
	b.await(`!document.querySelector(".dcm-run") && document.querySelector(".pf-m-green")`)
	b.picture("30-two-vendors-applied")
}

// withoutGPUs: a host without GPUs says so, and offers no profiles.
func (b browser) withoutGPUs() {
	b.t.Helper()
	b.run("systemctl restart dcm")
	b.login("any")
	b.await(`document.body.classList.contains("empty")`)
	if got := b.read(`document.querySelector("#choice").offsetParent`); got != "null" {
		b.t.Error("profiles are offered")
	}
	b.picture("31-no-gpus")
}

// nvidiaSeed returns the files with which a node has NVIDIA's library.
func nvidiaSeed(t *testing.T) e2e.Seed {
	t.Helper()
	lib, err := standin.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	seed := e2e.Seed{}
	if err := seed.NVML(lib); err != nil {
		t.Fatal(err)
	}
	return seed
}
