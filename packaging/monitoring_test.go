package packaging_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// metricName matches a metric of dcm. Labels and alerts have no such prefix.
var metricName = regexp.MustCompile(`\bdcm_[a-z_]+\b`)

// dashboard is what the tests read of Grafana's dashboard model.
type dashboard struct {
	Panels []struct {
		ID      int
		Title   string
		GridPos struct{ X, Y, W, H int }
		Targets []struct{ Expr string }
	}
	Templating struct {
		List []struct{ Definition string }
	}
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	var d dashboard
	if err := json.Unmarshal([]byte(read(t, "monitoring/dcm-dashboard.json")), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestMonitoring_MetricsExist(t *testing.T) {
	exist := make(map[string]bool)
	for _, name := range metricName.FindAllString(read(t, "../internal/testkit/surface/golden/metrics.txt"), -1) {
		exist[name] = true
	}
	for _, file := range []string{"dcm-alerts.yml", "dcm-alerts_test.yml", "dcm-dashboard.json"} {
		names := metricName.FindAllString(read(t, "monitoring/"+file), -1)
		if len(names) == 0 {
			t.Errorf("monitoring/%s: no metric found", file)
		}
		for _, name := range names {
			if !exist[name] {
				t.Errorf("monitoring/%s: dcm has no metric %s", file, name)
			}
		}
	}
}

func TestMonitoring_EachAlertIsTestedAndDocumented(t *testing.T) {
	tests, manual := read(t, "monitoring/dcm-alerts_test.yml"), read(t, "man/dcm-metrics.7")
	alerts := regexp.MustCompile(`(?m)^ +- alert: (\w+)$`).FindAllStringSubmatch(read(t, "monitoring/dcm-alerts.yml"), -1)
	if len(alerts) == 0 {
		t.Fatal("monitoring/dcm-alerts.yml: no alert found")
	}
	for _, alert := range alerts {
		fires := regexp.MustCompile(`alertname: ` + alert[1] + `\n +exp_alerts:`)
		if !fires.MatchString(tests) {
			t.Errorf("%s: no test in which it fires", alert[1])
		}
		if !strings.Contains(manual, "\n.B "+alert[1]+"\n") {
			t.Errorf("%s: not in dcm-metrics(7)", alert[1])
		}
	}
}

func TestDashboard_PanelsDoNotOverlap(t *testing.T) {
	taken, ids := make(map[[2]int]string), make(map[int]bool)
	for _, panel := range readDashboard(t).Panels {
		if ids[panel.ID] {
			t.Errorf("panel %q: its id %d is used twice", panel.Title, panel.ID)
		}
		ids[panel.ID] = true
		at := panel.GridPos
		if at.X+at.W > 24 {
			t.Errorf("panel %q: ends at column %d of 24", panel.Title, at.X+at.W)
		}
		for x := at.X; x < at.X+at.W; x++ {
			for y := at.Y; y < at.Y+at.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Fatalf("panels %q and %q overlap", other, panel.Title)
				}
				taken[[2]int{x, y}] = panel.Title
			}
		}
	}
}

// Prometheus' own parser reads the alerts and each query of the dashboard.
func TestMonitoring_Promtool(t *testing.T) {
	need(t, "promtool")
	promtool := func(args ...string) {
		cmd := exec.Command("promtool", args...)
		cmd.Dir = "monitoring"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, bytes.TrimSpace(out))
		}
	}
	promtool("check", "rules", "--lint=all", "--lint-fatal", "dcm-alerts.yml")
	promtool("test", "rules", "dcm-alerts_test.yml")
	for _, panel := range readDashboard(t).Panels {
		for _, target := range panel.Targets {
			rule, err := json.Marshal(map[string]any{"groups": []any{map[string]any{
				"name": "dashboard", "rules": []any{map[string]string{"record": "panel", "expr": target.Expr}},
			}}})
			if err != nil {
				t.Fatal(err)
			}
			// Versions before 2.43 read no rules from standard input.
			file := filepath.Join(t.TempDir(), "rule.json")
			if err := os.WriteFile(file, rule, 0o600); err != nil {
				t.Fatal(err)
			}
			promtool("check", "rules", "--lint=none", file)
		}
	}
}
