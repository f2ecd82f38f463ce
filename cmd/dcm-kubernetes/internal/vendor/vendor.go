// Package vendor has what differs between the vendors of GPUs in a cluster: the names of labels,
// states, resources, images and the taint.
package vendor

import (
	"slices"
	"strings"
)

// Vendor is the row of one vendor.
type Vendor struct {
	Name    string            // in dcm's account and in the operation's annotation
	Profile string            // label with the selected profile
	State   string            // label with the state
	States  map[string]string // values of the label of the state, by the agent's own words
	Taint   Taint

	ConfigKey string // key of the ConfigMap with the vendor's own format
	Generated bool   // profiles exist without a ConfigMap

	Resources []string          // prefixes of the names of extended resources
	Devices   []string          // prefixes of the paths of device nodes
	Driver    string            // DRA driver in claims and slices
	Kinds     map[string]string // values of the attribute "type" of its devices, and the attribute with the mode
	Partition string            // the type of its devices that are partitions
	Parents   []string          // attributes of its devices with the PCI address or UUID of their GPU

	Plugin   string   // image of the device plugin
	Operands []string // images of other operands
	DRA      []string // images of the DRA driver
	Gate     string   // its feature gate with which it creates partitions for claims
	Manager  []string // images of the vendor's own manager
	Foreign  string   // word in the repository of another vendor's images of the same name

	Pause      []string // labels of the node that select its operands
	PauseLate  []string // of those that pods need to terminate
	Validators []string // values of the label "app" of pods that are deleted before a change
	Revalidate []string // of pods that are restarted after it
}

// Taint keeps operands away from a node during a change.
type Taint struct{ Key, Value string }

// The agent's words for a state.
const (
	Success    = "success"
	Failure    = "failure"
	InProgress = "in-progress"
	Rebooting  = "rebooting"
)

// Paused is the value of the labels of operands during a change, as NVIDIA's manager writes it.
const Paused = "paused-for-mig-change"

// AMD is AMD's row. Its labels and states are those of AMD's Device Config Manager. AMD's
// instructions have the key of the taint with NoExecute, which would end all other pods and ignore
// disruption budgets.
var AMD = &Vendor{
	Name:    "amd",
	Profile: "dcm.amd.com/gpu-config-profile",
	State:   "dcm.amd.com/gpu-config-profile-state",
	States:  map[string]string{Success: "success", Failure: "failure", InProgress: "in-progress"},
	Taint:   Taint{Key: "amd-dcm", Value: "up"},

	ConfigKey: "config.json",

	Resources: []string{"amd.com/"},
	Devices:   []string{"/dev/kfd", "/dev/dri"},
	Driver:    "gpu.amd.com",
	Kinds:     map[string]string{"amdgpu": "partitionProfile", "amdgpu-partition": "partitionProfile"},
	Partition: "amdgpu-partition",
	Parents:   []string{"pciAddr", "parentPciAddr"},

	Plugin:   "k8s-device-plugin",
	Operands: []string{"device-metrics-exporter"},
	DRA:      []string{"k8s-gpu-dra-driver"},
	Gate:     "AutoPartition",
	Manager:  []string{"device-config-manager"},
	Foreign:  "nvidia",
}

// NVIDIA is NVIDIA's row. Its labels and states are those of nvidia-mig-manager.
var NVIDIA = &Vendor{
	Name:    "nvidia",
	Profile: "nvidia.com/mig.config",
	State:   "nvidia.com/mig.config.state",
	States:  map[string]string{Success: "success", Failure: "failed", InProgress: "pending", Rebooting: "rebooting"},
	Taint:   Taint{Key: "deviceconfig.org/changing", Value: "true"},

	ConfigKey: "config.yaml",
	Generated: true,

	Resources: []string{"nvidia.com/gpu", "nvidia.com/mig-"},
	Devices:   []string{"/dev/nvidia"},
	Driver:    "gpu.nvidia.com",
	Kinds:     map[string]string{"gpu": "", "mig": "profile"},
	Partition: "mig",
	Parents:   []string{"uuid", "parentUUID", "pcieBusID", "resource.kubernetes.io/pciBusID"},

	Plugin:   "k8s-device-plugin",
	Operands: []string{"gpu-feature-discovery", "dcgm", "dcgm-exporter"},
	DRA:      []string{"k8s-dra-driver-gpu", "dra-driver-nvidia-gpu"},
	Gate:     "DynamicMIG",
	Manager:  []string{"k8s-mig-manager"},
	Foreign:  "rocm",

	Pause: []string{
		"nvidia.com/gpu.deploy.device-plugin", "nvidia.com/gpu.deploy.gpu-feature-discovery", "nvidia.com/gpu.deploy.dcgm-exporter",
		"nvidia.com/gpu.deploy.dcgm", "nvidia.com/gpu.deploy.nvsm", "nvidia.com/gpu.deploy.client",
		"nvidia.com/gpu.deploy.dcgm-dra", "nvidia.com/gpu.deploy.dcgm-exporter-dra", "nvidia.com/gpu.deploy.dra-validator",
	},
	PauseLate:  []string{"nvidia.com/gpu.deploy.dra-driver"},
	Validators: []string{"nvidia-cuda-validator", "nvidia-device-plugin-validator"},
	Revalidate: []string{"nvidia-operator-validator"},
}

// All lists the vendors.
var All = []*Vendor{AMD, NVIDIA}

// Named returns the vendor of a name. An operation of an agent that knew AMD only has no name.
func Named(name string) *Vendor {
	for _, v := range All {
		if v.Name == name {
			return v
		}
	}
	return AMD
}

// Of returns the vendor of a node's labels: that with a selected profile, otherwise that with a
// state, otherwise that whose operator labelled the node.
func Of(labels map[string]string) *Vendor {
	for _, key := range []func(*Vendor) string{func(v *Vendor) string { return v.Profile }, func(v *Vendor) string { return v.State }} {
		for _, v := range All {
			if labels[key(v)] != "" {
				return v
			}
		}
	}
	if labels["nvidia.com/gpu.present"] == "true" {
		return NVIDIA
	}
	return AMD
}

// Conflict names the profiles of a node with those of several vendors; "" for at most one.
func Conflict(labels map[string]string) string {
	var found []string
	for _, v := range All {
		if labels[v.Profile] != "" {
			found = append(found, v.Profile+"="+labels[v.Profile])
		}
	}
	if len(found) < 2 {
		return ""
	}
	return strings.Join(found, " and ")
}

// Labels returns the labels of operands that a change may pause.
func (v *Vendor) Labels() []string { return slices.Concat(v.Pause, v.PauseLate) }

// StateOf returns the agent's word for a value of the label of the state.
func (v *Vendor) StateOf(value string) string {
	for word, name := range v.States {
		if name == value {
			return word
		}
	}
	return value
}

// Word returns the value of the label for one of the agent's words.
func (v *Vendor) Word(state string) string {
	if word, ok := v.States[state]; ok {
		return word
	}
	return state
}

// GPU reports whether a resource name means GPUs, such as amd.com/gpu or nvidia.com/mig-1g.10gb.
// Network cards have other names of amd.com.
func (v *Vendor) GPU(resource string) bool {
	return hasPrefix(resource, v.Resources) && !strings.Contains(strings.TrimPrefix(resource, "amd.com/"), "nic")
}

// Device reports whether a path is that of a device node of GPUs.
func (v *Vendor) Device(path string) bool { return hasPrefix(path, v.Devices) }

func hasPrefix(s string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s, p) })
}
