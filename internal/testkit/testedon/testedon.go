// Package testedon generates the table "Tested on" of README.md and dcm(1). Its sources are
// results.json, which lists runs of tests, the kinds of nodes of the simulator, and records
// of real boards. Nothing else is claimed.
package testedon

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"dcm/internal/gpu/partition"
	"dcm/internal/gpu/record"
	"dcm/internal/testkit/sim"
)

//go:generate go run ./make

//go:embed results.json records
var sources embed.FS

// Result is one row: something that tests ran on.
type Result struct {
	Group   string `json:"group"`
	Name    string `json:"name"`
	Version string `json:"version"`
	Date    string `json:"date"`
	What    string `json:"what"`
	Part    bool   `json:"part"` // only a part of the tests ran
}

// Groups of results, in the order of the table.
const (
	nodes      = "simulated nodes"
	containers = "containers"
	kernels    = "kernels"
	libraries  = "libraries"
	boards     = "boards"
	untested   = "not tested"
)

func groups() []string { return []string{nodes, containers, kernels, libraries, boards, untested} }

// everyRun is the date of what runs with each test run.
const everyRun = "every test run"

// Results returns all results.
func Results() ([]Result, error) {
	text, err := sources.ReadFile("results.json")
	if err != nil {
		return nil, err
	}
	var all []Result
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("results.json: %w", err)
	}
	for _, k := range sim.Kinds() {
		all = append(all, Result{Group: nodes, Name: k.Name, Date: everyRun, What: k.About})
	}
	files, err := fs.Glob(sources, "records/*.json")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := sources.ReadFile(file)
		if err != nil {
			return nil, err
		}
		one, err := boardOf(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, one)
	}
	return all, check(all)
}

// boardOf returns the row of a recorded node.
func boardOf(text []byte) (Result, error) {
	var r record.Record
	if err := json.Unmarshal(text, &r); err != nil {
		return Result{}, err
	}
	if len(r.GPUs) == 0 {
		return Result{}, fmt.Errorf("the record has no partitionable GPU")
	}
	g := r.GPUs[0]
	name := fmt.Sprintf("%#04x:%#04x", uint16(g.Vendor), g.Device)
	if m, ok := partition.LookupModel(g.Vendor, g.Device); ok {
		name = m.Name
	}
	for _, b := range partition.Boards() {
		if g.Vendor == partition.NVIDIA && b.Device == g.Device {
			name = b.Name
		}
	}
	version := "kernel " + r.Kernel
	if r.NVML != nil {
		version += " with driver " + r.NVML.Driver
	}
	return Result{Group: boards, Name: fmt.Sprintf("%d %s", len(r.GPUs), name), Version: version, Date: r.Date, What: "read by dcm record " + r.Program + "; nothing was changed"}, nil
}

// check returns an error for a row that does not say when and with what the tests ran.
func check(all []Result) error {
	for _, r := range all {
		switch {
		case !slices.Contains(groups(), r.Group):
			return fmt.Errorf("%s: unknown group (found %q, want one of %q)", r.Name, r.Group, groups())
		case r.Group == untested:
			if r.Version != "" || r.Date != "" || r.What != "" {
				return fmt.Errorf("%s: a row of %q has a name only", r.Name, untested)
			}
		case r.Date == "" || r.What == "" || r.Version == "" && r.Group != nodes:
			return fmt.Errorf("%s: version, date or what is missing", r.Name)
		}
	}
	return nil
}

// in returns the results of a group.
func in(all []Result, group string) []Result {
	return slices.DeleteFunc(slices.Clone(all), func(r Result) bool { return r.Group != group })
}

// README replaces the table in the text of README.md.
func README(text string, all []Result) (string, error) {
	const header = "| tested on | versions | date |\n"
	before, rest, ok := strings.Cut(text, header)
	if !ok {
		return "", fmt.Errorf("README.md: no line %q", header)
	}
	for strings.HasPrefix(rest, "|") {
		_, rest, _ = strings.Cut(rest, "\n")
	}
	return before + header + "|---|---|---|\n" + rows(all) + rest, nil
}

// rows has one row for each group.
func rows(all []Result) string {
	var b strings.Builder
	for _, group := range groups() {
		own := in(all, group)
		var versions, dates []string
		for _, r := range own {
			versions = append(versions, short(r))
			if r.Date != "" && !slices.Contains(dates, r.Date) {
				dates = append(dates, r.Date)
			}
		}
		slices.Sort(dates)
		text := strings.Join(versions, ", ")
		switch {
		case group == nodes:
			text = fmt.Sprintf("%d kinds, AMD from MI210 to MI355X, NVIDIA from A30 to GB300; dcm(1) lists them", len(own))
		case len(own) == 0:
			text = "none yet; `make hardware-kit` builds the archive that records one"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", title(group), text, strings.Join(dates, ", "))
	}
	return b.String()
}

// title is the name of a group with what its reader may take for granted and must not.
func title(group string) string {
	switch group {
	case containers:
		return "containers, GPUs simulated"
	case kernels:
		return "real kernels, GPUs simulated"
	case libraries:
		return "real libraries, no GPU"
	case boards:
		return "real boards, only read"
	}
	return group
}

func short(r Result) string {
	text := strings.TrimSpace(r.Name + " " + r.Version)
	if r.Group == containers {
		text = fmt.Sprintf("%s (%s)", r.Name, r.Version)
	}
	if r.Part {
		text += " (in part)"
	}
	return text
}

// Manual replaces the section TESTED ON in the text of dcm(1).
func Manual(text string, all []Result) (string, error) {
	const section = ".SH TESTED ON\n"
	before, rest, ok := strings.Cut(text, section)
	_, after, next := strings.Cut(rest, "\n.SH ")
	if !ok || !next {
		return "", fmt.Errorf("dcm.1: no section %q with one after it", section)
	}
	return before + section + body(all) + ".SH " + after, nil
}

// body is the content of the section.
func body(all []Result) string {
	var b strings.Builder
	b.WriteString(".\\\" Generated by go generate ./internal/testkit/testedon.\ndcm was tested on the following, and on nothing else.\nEntries without a date are tested in every test run of this version.\n")
	for _, group := range groups() {
		fmt.Fprintf(&b, ".SS %s\n", roff(strings.ToUpper(title(group)[:1])+title(group)[1:]))
		own := in(all, group)
		if len(own) == 0 {
			b.WriteString("None yet. The target hardware\\-kit of dcm's Makefile builds an archive that records one.\n")
		}
		for _, r := range own {
			name := strings.TrimSpace(r.Name + " " + r.Version)
			if r.Group == untested {
				fmt.Fprintf(&b, ".IP \\(bu 2\n%s\n", roff(name))
				continue
			}
			date := ""
			if r.Date != everyRun {
				date = ", " + r.Date
			}
			fmt.Fprintf(&b, ".TP\n.B %s\n%s%s.\n", roff(name), roff(r.What), roff(date))
		}
	}
	return b.String()
}

func roff(text string) string { return strings.ReplaceAll(text, "-", `\-`) }
