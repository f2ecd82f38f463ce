package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"dcm/cmd/dcm-kubernetes/internal/cluster"
	"dcm/cmd/dcm-kubernetes/internal/rendered"
	"dcm/cmd/dcm-kubernetes/internal/vendor"
)

const manifests = "../../packaging/kubernetes"

// documents returns the documents of a file.
func documents[T any](t *testing.T, file, kind string) []T {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(manifests, file))
	if err != nil {
		t.Fatal(err)
	}
	var out []T
	for doc := range strings.SplitSeq(string(text), "\n---\n") {
		var head struct{ Kind string }
		if err := yaml.Unmarshal([]byte(doc), &head); err != nil {
			t.Fatal(err)
		}
		if head.Kind != kind {
			continue
		}
		var o T
		if err := yaml.UnmarshalStrict([]byte(doc), &o); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		out = append(out, o)
	}
	if len(out) == 0 {
		t.Fatalf("%s has no %s", file, kind)
	}
	return out
}

func TestPod_Privileges(t *testing.T) {
	pod := documents[apps.DaemonSet](t, "base/daemonset.yaml", "DaemonSet")[0].Spec.Template.Spec
	if pod.HostNetwork || pod.HostPID || pod.HostIPC || len(pod.Containers) != 1 {
		t.Errorf("the pod shares with the host: %+v", pod)
	}
	s := pod.Containers[0].SecurityContext
	switch {
	case *s.Privileged, *s.AllowPrivilegeEscalation, !*s.ReadOnlyRootFilesystem,
		!slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}), len(s.Capabilities.Add) > 0, s.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault:
		t.Errorf("the container has %+v", s)
	}
	var mounted []string
	for _, v := range pod.Volumes {
		if v.HostPath != nil {
			mounted = append(mounted, v.HostPath.Path)
		}
	}
	if want := []string{"/run/dcm-agent", "/etc/kubernetes/node-feature-discovery/features.d"}; !slices.Equal(mounted, want) {
		t.Errorf("mounted are %q, want %q", mounted, want)
	}
	if _, err := parse(pod.Containers[0].Args, func(string) string { return "x" }, t.Output()); err != nil {
		t.Errorf("the arguments are not understood: %v", err)
	}
}

func TestAccount_Permissions(t *testing.T) {
	var got []string
	for _, r := range documents[rbac.ClusterRole](t, "base/account.yaml", "ClusterRole")[0].Rules {
		got = append(got, strings.Join(r.Resources, ",")+": "+strings.Join(r.Verbs, " "))
	}
	for _, r := range documents[rbac.Role](t, "cluster/budget.yaml", "Role")[0].Rules {
		got = append(got, strings.Join(r.Resources, ",")+": "+strings.Join(r.Verbs, " "))
	}
	want := []string{"nodes: get list watch patch", "nodes/status: patch", "pods: list delete", "pods/eviction: create",
		"resourceclaims: get", "resourceslices: list", "devicetaintrules: list create delete", "events: create", "leases: list update"}
	if !slices.Equal(got, want) {
		t.Errorf("it may %q, want %q", got, want)
	}
}

func TestManifests_Names(t *testing.T) {
	for file, words := range map[string][]string{
		"cluster/policy.yaml": {vendor.AMD.State, vendor.AMD.Taint.Key, vendor.NVIDIA.State, vendor.NVIDIA.Taint.Key, vendor.Paused},
		"cluster/budget.yaml": {cluster.Budget + `: ""`},
		"README.md":           {vendor.AMD.Profile, vendor.AMD.State, vendor.NVIDIA.Profile, vendor.NVIDIA.State, vendor.NVIDIA.Taint.Key, cluster.Operation, cluster.Last, cluster.ConditionType, cluster.Operand, cluster.Budget},
	} {
		text, err := os.ReadFile(filepath.Join(manifests, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range words {
			if !strings.Contains(string(text), w) {
				t.Errorf("%s does not name %s", file, w)
			}
		}
	}
}

func TestOverlaysRender(t *testing.T) {
	tests := map[string]struct {
		namespace string
		selector  string
		more      []string
	}{
		"plain":               {"dcm", "map[deviceconfig.org/agent:true kubernetes.io/os:linux]", []string{"Namespace /dcm"}},
		"amd-gpu-operator":    {"kube-amd-gpu", "map[deviceconfig.org/agent:true feature.node.kubernetes.io/amd-gpu:true kubernetes.io/os:linux]", nil},
		"nvidia-gpu-operator": {"gpu-operator", "map[deviceconfig.org/agent:true kubernetes.io/os:linux nvidia.com/gpu.present:true]", nil},
	}
	for overlay, tt := range tests {
		t.Run(overlay, func(t *testing.T) {
			objects, err := rendered.Objects(filepath.Join(manifests, "overlays", overlay))
			if err != nil {
				t.Fatal(err)
			}
			// The end of an overlay must leave the rights of the others, and the policy.
			cluster := "dcm-kubernetes-" + tt.namespace
			want := append(tt.more, "ClusterRole /"+cluster, "ClusterRoleBinding /"+cluster, "DaemonSet "+tt.namespace+"/dcm-kubernetes",
				"RoleBinding dcm-budget/"+cluster,
				"ServiceAccount "+tt.namespace+"/dcm-kubernetes")
			slices.Sort(want)
			var got []string
			for _, o := range objects {
				meta := o["metadata"].(rendered.Object)
				namespace, _ := meta["namespace"].(string)
				got = append(got, fmt.Sprintf("%v %s/%v", o["kind"], namespace, meta["name"]))
				if role, ok := o["roleRef"].(rendered.Object); ok && role["name"] != meta["name"] && role["name"] != "dcm-budget" {
					t.Errorf("%v %v binds the role %v", o["kind"], meta["name"], role["name"])
				}
				subjects, _ := o["subjects"].([]any)
				for _, s := range subjects {
					if s := s.(rendered.Object); s["namespace"] != tt.namespace || s["name"] != "dcm-kubernetes" {
						t.Errorf("%v is for %v", o["kind"], s)
					}
				}
				if o["kind"] == "DaemonSet" {
					pod := o["spec"].(rendered.Object)["template"].(rendered.Object)["spec"].(rendered.Object)
					image := pod["containers"].([]any)[0].(rendered.Object)["image"]
					rolling := o["spec"].(rendered.Object)["updateStrategy"].(rendered.Object)["rollingUpdate"].(rendered.Object)
					if rolling["maxUnavailable"] != "100%" {
						t.Errorf("nodes without dcm block the rollout: %v", rolling)
					}
					if fmt.Sprint(pod["nodeSelector"]) != tt.selector || image != "dcm-kubernetes:latest" {
						t.Errorf("%v on nodes with %v", image, pod["nodeSelector"])
					}
				}
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("rendered:\n%q, want\n%q", got, want)
			}
		})
	}
}

// The README has the versions that the agent logs.
func TestREADME_TestedVersions(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(manifests, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "| software | version | in the tests |\n|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var want []string
	for _, s := range vendor.Tested() {
		how := "played after its manifests"
		if s.Real {
			how = "runs"
		}
		want = append(want, fmt.Sprintf("| %s | %s | %s |", s.Name, s.Version, how))
	}
	if diff := cmp.Diff(want, strings.Split(table, "\n")); diff != "" {
		t.Errorf("the table of the README (-want +got):\n%s", diff)
	}
}

func TestClusterRenders(t *testing.T) {
	objects, err := rendered.Objects(filepath.Join(manifests, "cluster"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range objects {
		got = append(got, fmt.Sprintf("%v %v", o["kind"], o["metadata"].(rendered.Object)["name"]))
	}
	if want := []string{"Namespace dcm-budget", "Role dcm-budget", "Lease dcm-budget-1", "ValidatingAdmissionPolicy dcm-kubernetes", "ValidatingAdmissionPolicyBinding dcm-kubernetes"}; !slices.Equal(got, want) {
		t.Errorf("rendered:\n%q, want\n%q", got, want)
	}
}

// The table of states has each reason of the condition.
func TestREADME_Reasons(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(manifests, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n## States\n")
	table, _, _ = strings.Cut(table, "\n## ")
	sources, err := filepath.Glob("internal/[bs]*e/*.go")
	if err != nil {
		t.Fatal(err)
	}
	reason := regexp.MustCompile(`(?:isFalse\(|wait\(s, |Reason: )"([A-Za-z]+)"`)
	found := 0
	for _, file := range sources {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range reason.FindAllStringSubmatch(string(source), -1) {
			found++
			if !strings.HasSuffix(file, "_test.go") && !strings.Contains(table, "`"+m[1]+"`") {
				t.Errorf("%s: the table of states has no reason %s", file, m[1])
			}
		}
	}
	if found < 20 {
		t.Errorf("found %d reasons in %q", found, sources)
	}
}
