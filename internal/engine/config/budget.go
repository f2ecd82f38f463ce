package config

import (
	"fmt"
	"path"
	"strings"
	"time"

	"dcm/internal/engine/config/rule"
	"dcm/internal/engine/config/source"
)

// Budget limits how many units are down at the same time for changes of single GPUs.
type Budget struct {
	Units   []string // patterns of unit names with their suffix, in which * is any text
	MaxDown int
	Source  string // file:line
}

// maxUnits limits max-down.
const maxUnits = 4096

// Limits of settle-time.
const (
	minSettleDelay     = time.Second
	maxSettleDelay     = time.Hour
	defaultSettleDelay = 10 * time.Second
)

func budgets() rule.Rule {
	return rule.List(rule.Table(map[string]rule.Rule{
		"units":    unitPatterns(),
		"max-down": rule.Scalar("an integer", rule.Between(1, maxUnits)),
	}, rule.Require("units", "max-down")), nil)
}

func settleTime() rule.Rule {
	return rule.Duration(func(d time.Duration) bool { return d >= minSettleDelay && d <= maxSettleDelay },
		`a duration from 1s to 1h, such as "10s" or "2m"`, "s")
}

// unitPatterns is the rule of a pattern or an array of patterns.
func unitPatterns() rule.Rule {
	each := rule.Scalar("a string", func(text string) *source.Fault {
		_, f := unitPattern(text)
		return f
	})
	return rule.Rule{Check: func(c *rule.Checker, key string, n *source.Node) {
		switch items, list := n.Value.([]*source.Node); {
		case !list:
			each.Check(c, key, n)
		case len(items) == 0:
			c.Fail(n, key, &source.Fault{Text: "the list is empty", Accepted: `units = "vllm@*"`})
		default:
			rule.List(each, nil).Check(c, key, n)
		}
	}}
}

// unitPattern returns the pattern with the suffix of units. The name of a template is the pattern of
// its instances.
func unitPattern(text string) (string, *source.Fault) {
	if strings.Trim(text, "*") == "" {
		return "", &source.Fault{Text: "matches all units", Accepted: `the name of a unit, or a pattern such as "vllm@*"`}
	}
	full, f := rule.ParseUnit(strings.ReplaceAll(text, "*", "x"))
	if f != nil {
		f.Suggestion = "" // it would have x instead of *
		return "", f
	}
	if suffix := path.Ext(full); !strings.HasSuffix(text, suffix) {
		text += suffix
	}
	return strings.Replace(text, "@.", "@*.", 1), nil
}

// readBudgets returns the checked budgets.
func readBudgets(n *source.Node) []Budget {
	var out []Budget
	for _, item := range n.Items() {
		b := Budget{Source: item.Place()}
		units := item.At("units")
		list := units.Items()
		if list == nil {
			list = []*source.Node{units}
		}
		for _, u := range list {
			text, _ := u.Text()
			pattern, _ := unitPattern(text)
			b.Units = append(b.Units, pattern)
		}
		rule.ReadInt(item.At("max-down"), &b.MaxDown)
		out = append(out, b)
	}
	return out
}

// format returns the budget as a table of a dcm.toml.
func (b Budget) format() string {
	return fmt.Sprintf("[[budget]]\nunits = %s\nmax-down = %d\n", source.Array(b.Units, source.Quote), b.MaxDown)
}

// Rounds reports whether a change of several GPUs may be made in rounds: each GPU succeeds or is rolled
// back by itself.
func (c *Config) Rounds() bool { return c.UnitOfChange == GPU && c.OnFailure == Rollback }

// SharedBudgets returns a warning for the same units in two budgets.
func (c *Config) SharedBudgets() []string {
	var out []string
	first := make(map[string]Budget)
	for _, b := range c.Budgets {
		for _, pattern := range b.Units {
			if other, twice := first[pattern]; twice {
				out = append(out, fmt.Sprintf("%s: budget: units: %s is in the budget of %s too (max-down %d and %d): both limit a change", b.Source, pattern, other.Source, b.MaxDown, other.MaxDown))
				continue
			}
			first[pattern] = b
		}
	}
	return out
}

// warnBudgets warns of budgets for changes that are not made in rounds, and of two budgets for the same units.
func warnBudgets(c *Config) {
	c.Warnings = append(c.Warnings, c.SharedBudgets()...)
	if len(c.Budgets) > 0 && !c.Rounds() {
		c.Warnings = append(c.Warnings, c.Budgets[0].Source+`: budget: without unit-of-change = "gpu" and on-failure = "rollback" all GPUs change together, and dcm refuses a change that would exceed a budget`)
	}
}
