package selftest

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"dcm/internal/sorting"
)

// Verdict is the result of a check.
type Verdict string

// The verdicts.
const (
	Right   Verdict = "right"
	Wrong   Verdict = "wrong"
	NotSeen Verdict = "not seen" // it could not be checked
	Noted   Verdict = "noted"    // information
)

// Check is one fact that was checked.
type Check struct {
	At      string  `json:"at"`   // the mode that was applied; "" for the initial one
	What    string  `json:"what"` // "modes, by libamd_smi"
	Verdict Verdict `json:"verdict"`
	Text    string  `json:"text"`
	Source  Source  `json:"source,omitempty"` // what was compared; "" for other checks
	Named   string  `json:"named,omitempty"`  // the text with names of units and processes, which the archive does not have
}

// Source is a source of facts about the GPUs.
type Source string

// The sources.
const (
	Modes      Source = "modes"      // what dcm reads modes back from
	Partitions Source = "partitions" // what the driver shows of each partition
	Library    Source = "library"    // the vendor's cross-check
	Daemon     Source = "daemon"     // the daemon's status
	Nodes      Source = "nodes"      // device nodes and mode files
)

func newCheck(at, what string, v Verdict, text string) Check {
	return Check{At: at, What: what, Verdict: v, Text: text}
}

// about returns the checks with their source.
func about(s Source, all ...Check) []Check {
	for i := range all {
		all[i].Source = s
	}
	return all
}

// Failed reports whether a check has the verdict Wrong.
func Failed(all []Check) bool {
	return slices.ContainsFunc(all, func(c Check) bool { return c.Verdict == Wrong })
}

// Summary returns the number of checks by verdict.
func Summary(all []Check) string {
	n := make(map[Verdict]int)
	for _, c := range all {
		n[c.Verdict]++
	}
	var out []string
	for _, v := range []Verdict{Right, Wrong, NotSeen, Noted} {
		if n[v] > 0 {
			out = append(out, fmt.Sprintf("%d %s", n[v], v))
		}
	}
	return strings.Join(out, ", ")
}

// View is what one source reports of the GPUs: sysfs, KFD or a library.
type View struct {
	By      string
	Source  Source
	GPUs    []string          // the addresses that the source is about; nil for all
	Modes   map[string]string // by address; nil if the source does not report them
	Parts   map[string]int    // number of partitions by address; nil if not reported
	Problem string            // why the view is empty or incomplete
}

// CompareView compares the modes and the number of partitions of a view with the expected
// ones, of the GPUs that the source is about.
func CompareView(at string, want, got View) []Check {
	var out []Check
	if got.GPUs != nil {
		want.Modes, want.Parts = only(want.Modes, got.GPUs), only(want.Parts, got.GPUs)
	}
	if got.Modes != nil {
		out = append(out, compare(at, "modes, by "+got.By, want.Modes, got.Modes))
	}
	if got.Parts != nil {
		out = append(out, compare(at, "partitions, by "+got.By, want.Parts, got.Parts))
	}
	if got.Problem != "" || len(out) == 0 {
		out = append(out, newCheck(at, "the GPUs, by "+got.By, NotSeen, orNoData(got.Problem)))
	}
	return about(got.Source, out...)
}

// only returns the entries of these GPUs.
func only[T any](all map[string]T, gpus []string) map[string]T {
	out := maps.Clone(all)
	maps.DeleteFunc(out, func(gpu string, _ T) bool { return !slices.Contains(gpus, gpu) })
	return out
}

func orNoData(why string) string {
	if why == "" {
		return "nothing is reported"
	}
	return why
}

// compare lists the GPUs whose value differs or is missing, those that differ alike together.
func compare[T comparable](at, what string, want, got map[string]T) Check {
	differs := slices.DeleteFunc(slices.Sorted(maps.Keys(want)), func(gpu string) bool {
		now, there := got[gpu]
		return there && now == want[gpu]
	})
	difference := func(gpu string) string {
		if now, there := got[gpu]; there {
			return fmt.Sprintf("has %v (want %v)", now, want[gpu])
		}
		return "is missing"
	}
	if len(differs) > 0 {
		var bad []string
		for _, alike := range sorting.Groups(differs, difference) {
			who := strings.Join(alike, ", ")
			if n := len(alike); n > 1 && n == len(want) {
				who = fmt.Sprintf("each of %d GPUs", n)
			}
			bad = append(bad, who+" "+difference(alike[0]))
		}
		return newCheck(at, what, Wrong, strings.Join(bad, "; "))
	}
	return newCheck(at, what, Right, fmt.Sprintf("%d GPUs: %s", len(want), distinctValues(want)))
}

// distinctValues returns each different value once.
func distinctValues[T comparable](all map[string]T) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if v := fmt.Sprint(all[key]); !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return strings.Join(out, "; ")
}

// File is a file of the GPUs, or a device node.
type File struct {
	Path string
	Mode fs.FileMode
	Err  error // if it cannot be examined
}

// DeviceNodes checks the device nodes of the partitions.
func DeviceNodes(at string, files []File) Check {
	const what = "device nodes"
	var bad []string
	for _, f := range files {
		switch {
		case f.Err != nil:
			bad = append(bad, f.Err.Error())
		case f.Mode.IsDir() || f.Mode.Perm()&0o600 != 0o600:
			bad = append(bad, f.Path+" is not readable and writable: its mode is "+f.Mode.String())
		}
	}
	return about(Nodes, verdict(at, what, bad, fmt.Sprintf("%d exist", len(files))))[0]
}

// ModeFiles checks the files that modes are written to: only root may write to them.
func ModeFiles(at string, files []File) Check {
	const what = "files that modes are written to"
	var bad []string
	for _, f := range files {
		switch {
		case f.Err != nil:
			bad = append(bad, f.Err.Error())
		case f.Mode.Perm()&0o200 == 0:
			bad = append(bad, f.Path+" is not writable: its mode is "+f.Mode.String())
		case f.Mode.Perm()&0o022 != 0:
			bad = append(bad, f.Path+" is writable for users other than root: its mode is "+f.Mode.String())
		}
	}
	return about(Nodes, verdict(at, what, bad, fmt.Sprintf("%d are writable for root only", len(files))))[0]
}

func verdict(at, what string, bad []string, right string) Check {
	const most = 8
	if more := len(bad) - most; more > 0 {
		bad = append(bad[:most:most], fmt.Sprintf("and %d more", more))
	}
	if len(bad) > 0 {
		return newCheck(at, what, Wrong, strings.Join(bad, "; "))
	}
	return newCheck(at, what, Right, right)
}

// FromError is a check that fails with an error.
func FromError(at, what, right string, err error) Check {
	if err != nil {
		return newCheck(at, what, Wrong, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return newCheck(at, what, Right, right)
}
