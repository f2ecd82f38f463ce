package selftest

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

// Verdict is what becomes of one check.
type Verdict string

// The verdicts.
const (
	Right  Verdict = "right"
	Wrong  Verdict = "wrong"
	Unseen Verdict = "not seen" // it could not be looked at, or there is nothing to look with
	Noted  Verdict = "noted"    // worth knowing, and no fault
)

// Check is one thing that was looked at.
type Check struct {
	At      string  `json:"at"`   // the mode that the GPUs were to have; "" for how they were found
	What    string  `json:"what"` // "modes, by libamd_smi"
	Verdict Verdict `json:"verdict"`
	Text    string  `json:"text"`
}

// Red reports whether something is wrong.
func Red(all []Check) bool {
	return slices.ContainsFunc(all, func(c Check) bool { return c.Verdict == Wrong })
}

// Count says how many checks there were, by verdict.
func Count(all []Check) string {
	n := make(map[Verdict]int)
	for _, c := range all {
		n[c.Verdict]++
	}
	var out []string
	for _, v := range []Verdict{Right, Wrong, Unseen, Noted} {
		if n[v] > 0 {
			out = append(out, fmt.Sprintf("%d %s", n[v], v))
		}
	}
	return strings.Join(out, ", ")
}

// View is how the GPUs look to one of those who can see them.
type View struct {
	By    string
	Modes map[string]string // by address; nil where he does not tell
	Parts map[string]int    // how many partitions there are; nil where he does not tell
	Why   string            // why he sees nothing, or not all
}

// Agree holds a view against what is to be: the modes, and how many partitions.
func Agree(at string, want, got View) []Check {
	var out []Check
	if got.Modes != nil {
		out = append(out, compare(at, "modes, by "+got.By, want.Modes, got.Modes))
	}
	if got.Parts != nil {
		out = append(out, compare(at, "partitions, by "+got.By, want.Parts, got.Parts))
	}
	if got.Why != "" || len(out) == 0 {
		out = append(out, Check{at, "the GPUs, by " + got.By, Unseen, orNothing(got.Why)})
	}
	return out
}

func orNothing(why string) string {
	if why == "" {
		return "nothing is told"
	}
	return why
}

// compare tells of each GPU that is to be seen otherwise. One that is not there is.
func compare[T comparable](at, what string, want, got map[string]T) Check {
	var bad []string
	for _, gpu := range slices.Sorted(maps.Keys(want)) {
		switch now, there := got[gpu]; {
		case !there:
			bad = append(bad, gpu+" is not told of")
		case now != want[gpu]:
			bad = append(bad, fmt.Sprintf("%s has %v, and should have %v", gpu, now, want[gpu]))
		}
	}
	if len(bad) > 0 {
		return Check{at, what, Wrong, strings.Join(bad, "; ")}
	}
	return Check{at, what, Right, fmt.Sprintf("%d GPUs: %s", len(want), values(want))}
}

// values are those that there are, each once.
func values[T comparable](all map[string]T) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if v := fmt.Sprint(all[key]); !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return strings.Join(out, "; ")
}

// File is a file of the GPUs, or one of their device nodes.
type File struct {
	Path string
	Mode fs.FileMode
	Err  error // it is not there, say
}

// Nodes judges the device nodes of the partitions.
func Nodes(at string, files []File) Check {
	const what = "device nodes"
	var bad []string
	for _, f := range files {
		switch {
		case f.Err != nil:
			bad = append(bad, f.Err.Error())
		case f.Mode.IsDir() || f.Mode.Perm()&0o600 != 0o600:
			bad = append(bad, f.Path+" cannot be opened to work with: it is "+f.Mode.String())
		}
	}
	return verdict(at, what, bad, fmt.Sprintf("%d are there", len(files)))
}

// Writable judges the files that modes are written to: root has to be able to, and
// nobody else may.
func Writable(at string, files []File) Check {
	const what = "files that modes are written to"
	var bad []string
	for _, f := range files {
		switch {
		case f.Err != nil:
			bad = append(bad, f.Err.Error())
		case f.Mode.Perm()&0o200 == 0:
			bad = append(bad, f.Path+" cannot be written to: it is "+f.Mode.String())
		case f.Mode.Perm()&0o022 != 0:
			bad = append(bad, f.Path+" can be written to by others than root: it is "+f.Mode.String())
		}
	}
	return verdict(at, what, bad, fmt.Sprintf("root alone writes to %d", len(files)))
}

func verdict(at, what string, bad []string, right string) Check {
	const most = 8
	if more := len(bad) - most; more > 0 {
		bad = append(bad[:most:most], fmt.Sprintf("and %d more", more))
	}
	if len(bad) > 0 {
		return Check{at, what, Wrong, strings.Join(bad, "; ")}
	}
	return Check{at, what, Right, right}
}

// Verify is a check that fails with the reason.
func Verify(at, what, right string, err error) Check {
	if err != nil {
		return Check{at, what, Wrong, strings.ReplaceAll(err.Error(), "\n", "; ")}
	}
	return Check{at, what, Right, right}
}
