package e2e_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"dcm/internal/testkit/e2e"
)

const (
	textfile = "/var/lib/prometheus/node-exporter/dcm.prom"
	// The root has neither curl nor wget, so the test uses bash.
	scrape = `bash -c 'exec 3<>/dev/tcp/127.0.0.1/9100; printf "GET /metrics HTTP/1.0\r\n\r\n" >&3; cat <&3'`
)

// operations tests the functions for the operation of many hosts, in one container and in order.
func operations(t *testing.T, p product) {
	t.Parallel()
	m := install(t, e2e.Monitored(), p)
	m.run("systemctl disable --now prometheus") // only promtool is used
	for _, s := range []struct {
		name string
		run  func(machine)
	}{
		{"metrics", metrics},
		{"alerts", alerts},
		{"journal", journal},
		{"discovery", discovery},
		{"support", support},
		{"foreign text", foreignText},
		{"history", causesRecorded},
	} {
		t.Run(s.name, func(t *testing.T) {
			m := m.in(t)
			m.ready()
			s.run(m)
		})
	}
	m.run("dpkg --remove dcm && ! ls -l " + textfile)
}

// metrics: a real node_exporter serves the daemon's metrics.
func metrics(m machine) {
	// The other collectors fail with a simulated /sys.
	m.put("/etc/default/prometheus-node-exporter", "ARGS=\"--collector.disable-defaults --collector.textfile\"\n")
	m.run("systemctl restart prometheus-node-exporter")
	m.put(settings, selecting("spx-fast"))
	m.applied("spx-fast")
	m.run("systemctl restart dcm") // the counters must survive a restart of the daemon
	// The unit counts as started before the exporter accepts connections.
	m.until(`bash -c ': </dev/tcp/127.0.0.1/9100'`)
	m.scraped(
		`dcm_profile_info\{profile="spx-fast",source="`+settings+`:1"\} 1`,
		`dcm_in_sync 1`,
		`dcm_gpu_mode_info\{compute="SPX",gpu="0000:05:00.0",memory="NPS1",model="MI300X"\} 1`,
		`dcm_gpu_partitions\{gpu="0000:e5:00.0"\} 1`,
		`dcm_runs_total\{result="applied"\} 2`,
		`dcm_runs_total\{result="failed"\} 0`,
		`dcm_last_run_phase_seconds\{phase="stop"\} [0-9.e-]+`,
		`dcm_last_run_phase_seconds\{phase="switch"\} [0-9.e-]+`,
		`dcm_last_run_phase_seconds\{phase="start"\} [0-9.e-]+`,
		`dcm_last_success_timestamp_seconds 1\.[0-9]+e\+09`,
		`dcm_clients_not_back 0`,
		`dcm_config_last_load_successful 1`,
		`dcm_build_info\{goversion="go[0-9.]+",version="0.1.0"\} 1`,
		`node_textfile_scrape_error 0`,
	)
	m.judged()
	m.onlyALink()
	m.put(settings, "profile = 7\n")
	m.await("/run/dcm/metrics/dcm.prom", "dcm_config_last_load_successful 0", "dcm_in_sync 1")
	m.put(settings, selecting("spx-fast")+"[metrics]\ntextfile = \"off\"\n")
	m.run("systemctl restart dcm && ! ls -l " + textfile)
	m.put(settings, selecting("spx-fast"))
	m.run("systemctl restart dcm && test -f " + textfile)
	m.run("systemctl stop dcm && ! ls -l " + textfile + " && systemctl start dcm && test -f " + textfile)
	m.t.Logf("resident memory of the daemon: %s", m.run("grep VmRSS /proc/$(systemctl show --property=MainPID --value dcm)/status"))
}

// scraped checks that each pattern matches a line of the exporter's output.
func (m machine) scraped(patterns ...string) {
	m.t.Helper()
	text := m.run(scrape)
	if !strings.HasPrefix(text, "HTTP/1.0 200 ") {
		m.t.Fatalf("reply of the exporter: got %.300q", text)
	}
	for _, p := range patterns {
		if !regexp.MustCompile(`(?m)^` + p + `\r?$`).MatchString(text) {
			m.t.Errorf("metrics: want a line %s", p)
		}
	}
	m.t.Log(strings.Join(regexp.MustCompile(`(?m)^(dcm|node_textfile)_.*$`).FindAllString(text, -1), "\n"))
}

// onlyALink: Debian's user prometheus owns a parent of the directory and can replace it by a link while
// dcm writes. dcm must not write through that link, neither directly nor in the daemon's sandbox.
func (m machine) onlyALink() {
	m.t.Helper()
	const dir = "/var/lib/prometheus/node-exporter"
	if to := m.run("readlink " + textfile); to != "/run/dcm/metrics/dcm.prom" {
		m.t.Errorf("metrics file: want a link to /run/dcm/metrics/dcm.prom, got %q", to)
	}
	// A directory of an overlay's lower layer cannot be renamed.
	m.run("cp -a " + dir + " " + dir + ".new && rm -r " + dir + " && mv " + dir + ".new " + dir)
	m.run("runuser -u prometheus -- mv " + dir + " " + dir + ".away && mkdir -m 0777 /opt/victim && touch /opt/victim/dcm.prom1 && chmod 0600 /opt/victim/dcm.prom1")
	m.run("runuser -u prometheus -- ln -s /opt/victim " + dir)
	m.run("systemctl restart dcm")
	if got := m.run("stat -c '%n %a' /opt/victim/*"); got != "/opt/victim/dcm.prom1 600" {
		m.t.Errorf("target of the link: want it unchanged, got %s", got)
	}
	if r := m.try("nsenter --mount --target $(systemctl show -P MainPID dcm) -- touch /opt/victim/new"); r.Code == 0 {
		m.t.Error("target of the link: want it read-only for dcm.service")
	}
	if !slices.ContainsFunc(m.entries("--unit=dcm --priority=warning"), func(e entry) bool {
		text, _ := e["MESSAGE"].(string)
		return strings.Contains(text, dir)
	}) {
		m.t.Error("journal: want a warning about the link")
	}
	m.run("rm " + dir + " && mv " + dir + ".away " + dir + " && touch " + dir + "/.dcm.link && rm " + textfile)
	m.run("systemctl restart dcm && test -f " + textfile + " && ! test -e " + dir + "/.dcm.link")
}

// alerts: promtool accepts the packaged alert rules, and each rule fires in its test.
func alerts(m machine) {
	tests, err := os.ReadFile("../../../packaging/monitoring/dcm-alerts_test.yml")
	if err != nil {
		m.t.Fatal(err)
	}
	m.run("mkdir /root/monitoring && cp /usr/share/dcm/monitoring/dcm-alerts.yml /root/monitoring")
	m.put("/root/monitoring/dcm-alerts_test.yml", string(tests))
	m.t.Log(m.run("cd /root/monitoring && promtool check rules --lint=all --lint-fatal dcm-alerts.yml && promtool test rules dcm-alerts_test.yml"))
}

// judged checks a file with promtool.
func (m machine) judged() {
	m.t.Helper()
	if said := m.run("promtool check metrics <" + textfile + " 2>&1"); said != "" {
		m.t.Errorf("promtool: want no complaint, got %s", said)
	}
}
