package config_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/config"
)

func TestLoad_Budgets(t *testing.T) {
	p := written(t, map[string]string{
		"dcm.toml":                "[apply]\nunit-of-change = \"gpu\"\nsettle-time = \"2m\"\n[[budget]]\nunits = \"vllm@*\"\nmax-down = 2\n",
		"dcm.toml.d/50-more.toml": "[[budget]]\nunits = [\"triton@\", \"feed.socket\", \"app.v2\", \"llm-*.service\"]\nmax-down = 1\n",
	})
	cfg, err := config.Load(p)
	if err != nil {
		t.Fatal(err)
	}
	for i := range cfg.Budgets {
		cfg.Budgets[i].Source = ""
	}
	want := []config.Budget{{Units: []string{"vllm@*.service"}, MaxDown: 2},
		{Units: []string{"triton@*.service", "feed.socket", "app.v2.service", "llm-*.service"}, MaxDown: 1}}
	if diff := cmp.Diff(want, cfg.Budgets); diff != "" {
		t.Errorf("budgets (-want +got):\n%s", diff)
	}
	if cfg.SettleTime != 2*time.Minute || len(cfg.Warnings) != 0 || !cfg.Rounds() {
		t.Errorf("settle-time %s, warnings %q, rounds %t, want 2m, none, true", cfg.SettleTime, cfg.Warnings, cfg.Rounds())
	}
}

// If all GPUs of a change succeed or fail together, there are no rounds.
func TestLoad_BudgetsWithoutRounds(t *testing.T) {
	const budget = "[[budget]]\nunits = \"a\"\nmax-down = 1\n"
	for _, apply := range []string{"", "[apply]\nunit-of-change = \"gpu\"\non-failure = \"keep\"\n"} {
		cfg, err := config.Load(written(t, map[string]string{"dcm.toml": apply + budget}))
		if err != nil || cfg.Rounds() || !slices.ContainsFunc(cfg.Warnings, func(w string) bool { return strings.Contains(w, "budget: without unit-of-change") }) {
			t.Errorf("%q: %v, want a warning about the budget", apply, err)
		}
	}
}

func TestLoad_BadBudgets(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"[[budget]]\nmax-down = 1\n", "budget.units: is missing"},
		{"[[budget]]\nunits = \"a\"\n", "budget.max-down: is missing"},
		{"[[budget]]\nunits = \"a\"\nmax-down = 0\n", ":3: budget.max-down = 0"},
		{"[[budget]]\nunits = []\nmax-down = 1\n", ":2: budget.units: the list is empty"},
		{"[[budget]]\nunits = \"*\"\nmax-down = 1\n", `:2: budget.units = "*": matches all units; accepted: the name of a unit, or a pattern such as "vllm@*"`},
		{"[[budget]]\nunits = [\"a\", 3]\nmax-down = 1\n", "budget.units = 3: must be a string"},
		{"[[budget]]\nunits = \"a/*\"\nmax-down = 1\n", ":2: budget.units = \"a/*\": not a unit name: '/' cannot be in one"},
		{"[[budget]]\nunits = \"a\"\nmax-down = 1\nsettle-time = \"5s\"\n", ":4: budget.settle-time = \"5s\": wrong section: this key belongs in [apply]"},
		{"[apply]\nsettle-time = \"0s\"\n", ":2: apply.settle-time = \"0s\": out of range"},
	} {
		if _, err := config.Load(written(t, map[string]string{"dcm.toml": tt.text})); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.text, err, tt.want)
		}
	}
}

// The same units in two budgets are a mistake if the budgets differ, and unclear if they do not.
func TestLoad_BudgetsOfTheSameUnits(t *testing.T) {
	cfg, err := config.Load(written(t, map[string]string{
		"dcm.toml": "[apply]\nunit-of-change = \"gpu\"\n[[budget]]\nunits = \"vllm@\"\nmax-down = 2\n[[budget]]\nunits = [\"llm\", \"vllm@*\"]\nmax-down = 1\n",
	}))
	if err != nil || len(cfg.Warnings) != 1 {
		t.Fatalf("warnings %q, %v, want one", cfg.Warnings, err)
	}
	for _, text := range []string{"dcm.toml:6: budget: units: vllm@*.service is in the budget of ", "dcm.toml:3 too (max-down 1 and 2)"} {
		if !strings.Contains(cfg.Warnings[0], text) {
			t.Errorf("warning %q: want %q", cfg.Warnings[0], text)
		}
	}
}
