package vendor

import "strings"

// Software is a program with which the agent was tested.
type Software struct {
	Name, Version string
	Real          bool // the tests run it; otherwise they play it after its manifests
}

// Tested lists the software with which the agent was tested. The README has the same table.
func Tested() []Software {
	return []Software{
		{"Kubernetes", "1.36.3", true},
		{"Helm", "3.22.0", true},
		{"NVIDIA GPU operator, ClusterPolicy and GPUCluster", "26.7.0", false},
		{"NVIDIA device plugin", "0.20.0", false},
		{"NVIDIA DRA driver", "0.5.0", false},
		{"AMD GPU operator", "1.5.1", false},
		{"AMD device plugin", "1.31.0", false},
		{"AMD DRA driver", "0.1.0", false},
	}
}

// Versions returns the tested software in one line.
func Versions() string {
	var words []string
	for _, s := range Tested() {
		words = append(words, s.Name+" "+s.Version)
	}
	return strings.Join(words, "; ")
}
