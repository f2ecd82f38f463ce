// Package doctor finds known causes of failure on a host before a change is tried.
//
// It reads files below a root directory and changes nothing. It runs no program, calls no
// vendor's library and does not use D-Bus, so that a directory tree can stand for a host. Its
// caller scans the open files of processes.
package doctor

import (
	"fmt"

	"dcm/internal/text"
)

// Level is the severity of a finding.
type Level string

// Levels. An error makes a change fail; a warning may.
const (
	Warning Level = "warning"
	Error   Level = "error"
)

// Check is an entry of the table of checks.
type Check struct {
	ID     string // stable, for scripts
	Level  Level
	Reads  string // files that it reads
	Finds  string // condition, for the manual
	Hint   string // remedy
	Source string // of the fact; "" for one that dcm itself defines

	find func(*facts) []problem
}

// Finding is a cause of failure on this host.
type Finding struct {
	ID     string `json:"id"`
	Level  Level  `json:"level"`
	Object string `json:"object"` // GPU, module, unit or file
	Text   string `json:"text"`
	Hint   string `json:"hint"`
	Source string `json:"source,omitempty"`
}

func (f Finding) String() string { return fmt.Sprintf("%s: %s [%s]", f.Object, f.Text, f.ID) }

// problem is a finding without what the table has of its check.
type problem struct{ object, text string }

// Config holds what the checks need of the configuration, and what has a GPU open.
type Config struct {
	Clients   []string // unit names
	Exclusive bool     // a reservation is exclusive
	Included  bool     // services that have a GPU open become clients
	Reload    bool     // a run may unload nvidia_drm to switch MIG
	Services  []string // units that have a GPU open, are no clients and could be
	Guests    []string // addresses of virtual functions and vGPUs
	Dynamic   []string // "FILE:LINE: KEY" of each dynamic group
	Held      []OnGPU  // amount of memory that no process holds: "149 GiB"
	Lacking   []OnGPU  // number of partitions with device nodes, of GPUs that have too few: "found 0, want 1"
	Foreign   []OnGPU  // MIG instances of dynamic GPUs that neither the profile nor a lease has: "3g.40gb at slot 0"
	Kernel    []string // lines of the kernel log of this boot on AMD GPUs
	Processes []string // "process 4711 (python3)": without a unit, with a GPU open
	CDI       CDI
	Slurm     string // TaskPlugin of Slurm, if it gives GPUs to jobs without task/cgroup; "" otherwise
}

// OnGPU is a fact of one GPU.
type OnGPU struct{ GPU, Text string }

// CDI is what NVIDIA's CDI file should have.
type CDI struct {
	Failed bool     // nvidia-cdi-refresh.service has failed
	Empty  bool     // all GPUs of NVIDIA are in MIG mode, and none has an instance
	UUIDs  []string // of the MIG devices, and of the GPUs that are not in MIG mode
	GPUs   []string // of all GPUs
}

// Report is the result of all checks.
type Report struct {
	Findings []Finding `json:"findings"`
	OK       int       `json:"ok"` // checks without a finding
	Warnings int       `json:"warnings"`
	Errors   int       `json:"errors"`
}

// Summary returns the counts: "20 ok, 1 warning, 0 errors".
func (r Report) Summary() string {
	return fmt.Sprintf("%d ok, %s, %s", r.OK, text.Count(r.Warnings, "warning"), text.Count(r.Errors, "error"))
}

// Run runs every check on the host below root.
func Run(root string, cfg Config) Report {
	f := read(root, cfg)
	r := Report{Findings: []Finding{}}
	for _, c := range Checks() {
		found := c.find(f)
		if len(found) == 0 {
			r.OK++
		}
		for _, p := range found {
			r.Findings = append(r.Findings, Finding{c.ID, c.Level, p.object, p.text, c.Hint, c.Source})
			if c.Level == Error {
				r.Errors++
			} else {
				r.Warnings++
			}
		}
	}
	return r
}
