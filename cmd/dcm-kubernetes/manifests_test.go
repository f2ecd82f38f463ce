package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"dcm/cmd/dcm-kubernetes/internal/cluster"
)

const manifests = "../../packaging/kubernetes"

// documents are those of a file, in the form of the API.
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

func TestThePodHasNoMoreThanItTakes(t *testing.T) {
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

func TestTheAccountMayDoNoMoreThanIsDone(t *testing.T) {
	var got []string
	for _, r := range documents[rbac.ClusterRole](t, "base/account.yaml", "ClusterRole")[0].Rules {
		got = append(got, strings.Join(r.Resources, ",")+": "+strings.Join(r.Verbs, " "))
	}
	for _, r := range documents[rbac.Role](t, "base/account.yaml", "Role")[0].Rules {
		got = append(got, strings.Join(r.Resources, ",")+": "+strings.Join(r.Verbs, " "))
	}
	want := []string{"nodes: get list watch patch", "nodes/status: patch", "pods: list delete", "pods/eviction: create",
		"resourceclaims: get", "events: create", "leases: list update"}
	if !slices.Equal(got, want) {
		t.Errorf("it may %q, want %q", got, want)
	}
}

func TestTheManifestsNameWhatTheProgramReads(t *testing.T) {
	for file, words := range map[string][]string{
		"base/policy.yaml": {cluster.State},
		"base/budget.yaml": {cluster.Budget + `: ""`},
		"README.md":        {cluster.Profile, cluster.State, cluster.Operation, cluster.Last, cluster.ConditionType, cluster.Operand, cluster.Budget},
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

func TestTheKustomizationsNameFilesThatAreThere(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(manifests, "*/kustomization.yaml"))
	more, _ := filepath.Glob(filepath.Join(manifests, "overlays/*/kustomization.yaml"))
	if files = append(files, more...); err != nil || len(files) != 3 {
		t.Fatalf("kustomizations are %q", files)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var k struct{ Resources []string }
		if err := yaml.Unmarshal(text, &k); err != nil {
			t.Fatal(err)
		}
		for _, r := range k.Resources {
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), r)); err != nil {
				t.Error(err)
			}
		}
	}
}
