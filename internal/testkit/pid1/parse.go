package pid1

import (
	"strconv"
	"strings"
	"time"
)

// ParseDropin reads the lines of a drop-in that the model knows.
func ParseDropin(text string) Dropin {
	var d Dropin
	each(text, func(key, value string) {
		switch key {
		case "Requires":
			d.Requires = append(d.Requires, strings.Fields(value)...)
		case "PartOf":
			d.PartOf = append(d.PartOf, strings.Fields(value)...)
		case "After":
			d.After = append(d.After, strings.Fields(value)...)
		case "AssertPathExists":
			d.Assert = value
		}
	})
	return d
}

// ParseFile reads the lines of a unit file that the model knows.
func ParseFile(name, text string) File {
	f := File{Name: name}
	lists := map[string]*[]string{"Requires": &f.Requires, "Wants": &f.Wants, "BindsTo": &f.BindsTo, "PartOf": &f.PartOf, "Upholds": &f.Upholds,
		"Requisite": &f.Requisite, "Conflicts": &f.Conflicts, "OnFailure": &f.OnFailure, "After": &f.After, "Before": &f.Before}
	times := map[string]*time.Duration{"TimeoutStartSec": &f.TimeoutStart, "TimeoutStopSec": &f.TimeoutStop, "RestartSec": &f.RestartDelay, "StartLimitIntervalSec": &f.StartLimitInterval}
	each(text, func(key, value string) {
		switch list, span := lists[key], times[key]; {
		case list != nil:
			*list = append(*list, strings.Fields(value)...)
		case span != nil:
			*span = parseTime(value)
		case key == "Type":
			f.Type = value
		case key == "RemainAfterExit":
			f.RemainAfterExit = value == "yes"
		case key == "Restart":
			f.Restart = value
		case key == "RestartPreventExitStatus":
			for _, s := range strings.Fields(value) {
				n, _ := strconv.Atoi(s)
				f.RestartPrevent = append(f.RestartPrevent, n)
			}
		}
	})
	return f
}

// parseTime reads a time span; 0 disables a limit.
func parseTime(value string) time.Duration {
	value = strings.ReplaceAll(value, "min", "m")
	if value == "0" || value == "infinity" {
		return Forever
	}
	if n, err := strconv.Atoi(value); err == nil {
		return time.Duration(n) * time.Second
	}
	d, _ := time.ParseDuration(value)
	return d
}

func each(text string, f func(key, value string)) {
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(key, "#") {
			f(key, value)
		}
	}
}
