package real_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"dcm/cmd/dcm-kubernetes/internal/cluster"
	"dcm/cmd/dcm-kubernetes/internal/rendered"
)

// helm renders the chart with the real Helm.
func helm(t *testing.T, namespace string, args ...string) ([]object, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(made(t, "helm"), "helm"), append([]string{"template", "dcm", filepath.Join(manifests, "chart"),
		"--namespace", namespace, "--kube-version", kubernetes}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, stderr.String())
	}
	var all []object
	for doc := range strings.SplitSeq("\n"+string(out), "\n---\n") {
		var o object
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			t.Fatalf("%v\n%s", err, doc)
		}
		if o != nil {
			all = append(all, o)
		}
	}
	return all, nil
}

// keyed returns objects by kind and name, without annotations. Only the chart has some.
func keyed(objects []object) map[string]object {
	out := make(map[string]object)
	for _, o := range objects {
		delete(sub(o, "metadata"), "annotations")
		out[fmt.Sprintf("%v %v", o["kind"], sub(o, "metadata")["name"])] = o
	}
	return out
}

// TestChart compares the objects of the chart with those of the overlays.
func TestChart(t *testing.T) {
	if os.Getenv("DCM_KUBERNETES") == "" {
		t.Skip("run by make test-kubernetes")
	}
	for overlay, in := range map[string]struct{ namespace, vendor string }{"plain": {"dcm", ""}, "amd-gpu-operator": {"kube-amd-gpu", "amd"}, "nvidia-gpu-operator": {"gpu-operator", "nvidia"}} {
		t.Run(overlay, func(t *testing.T) {
			chart, err := helm(t, in.namespace, "--set", "vendor="+in.vendor)
			if err != nil {
				t.Fatal(err)
			}
			want, err := rendered.Objects(filepath.Join(manifests, "overlays", overlay))
			if err != nil {
				t.Fatal(err)
			}
			cluster, err := rendered.Objects(filepath.Join(manifests, "cluster"))
			if err != nil {
				t.Fatal(err)
			}
			want = slices.DeleteFunc(append(want, cluster...), func(o object) bool { return sub(o, "metadata")["name"] == "dcm" })
			if d := cmp.Diff(keyed(want), keyed(chart)); d != "" {
				t.Errorf("(-overlay +chart)\n%s", d)
			}
		})
	}
	t.Run("values", chartValues)
	t.Run("bad values", chartRefuses)
}

func chartValues(t *testing.T) {
	objects, err := helm(t, "gpu", "--set", "image.repository=example.org/x,image.digest=sha256:"+strings.Repeat("a", 64)+",budget=3,pools.h100=2,pools.mi300x=1,configMap=mine,times.drain=0,times.wait=60s",
		"--set", "cluster=true", "--set", `nodeSelector.pool=a,nodeSelector.deviceconfig\.org/agent=`)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for key, o := range keyed(objects) {
		if namespace, ok := sub(o, "metadata")["namespace"].(string); ok {
			key += " in " + namespace
		}
		kinds = append(kinds, key)
	}
	slices.Sort(kinds)
	for name, pool := range map[string]string{"dcm-budget-3": "", "dcm-budget-h100-2": "h100"} {
		if got := sub(keyed(objects)["Lease "+name], "metadata", "labels")[cluster.Budget]; got != pool {
			t.Errorf("%s is in the pool %v, want %q", name, got, pool)
		}
	}
	want := []string{"ClusterRole dcm-kubernetes-gpu", "ClusterRoleBinding dcm-kubernetes-gpu", "DaemonSet dcm-kubernetes in gpu",
		"Lease dcm-budget-1 in dcm-budget", "Lease dcm-budget-2 in dcm-budget", "Lease dcm-budget-3 in dcm-budget",
		"Lease dcm-budget-h100-1 in dcm-budget", "Lease dcm-budget-h100-2 in dcm-budget", "Lease dcm-budget-mi300x-1 in dcm-budget",
		"Namespace dcm-budget", "Role dcm-budget in dcm-budget", "RoleBinding dcm-kubernetes-gpu in dcm-budget", "ServiceAccount dcm-kubernetes in gpu",
		"ValidatingAdmissionPolicy dcm-kubernetes", "ValidatingAdmissionPolicyBinding dcm-kubernetes"}
	if d := cmp.Diff(want, kinds); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	second, err := helm(t, "gpu", "--set", "cluster=false")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(second); n != 5 {
		t.Errorf("a second release has %d objects: %v", n, second)
	}
	pod := sub(keyed(objects)["DaemonSet dcm-kubernetes"], "spec", "template", "spec")
	container := pod["containers"].([]any)[0].(object)
	got := fmt.Sprintf("%v %v %v %v", container["image"], container["args"], pod["nodeSelector"], sub(pod["volumes"].([]any)[1].(object), "configMap")["name"])
	if want := "example.org/x@sha256:" + strings.Repeat("a", 64) + " [-features=/features.d/dcm -listen=:8086 -drain=0 -wait=60s] map[kubernetes.io/os:linux pool:a] mine"; got != want {
		t.Errorf("the pod has\n%s, want\n%s", got, want)
	}
}

func chartRefuses(t *testing.T) {
	for _, set := range []string{"vendor=intel", "budget=0", "pools.a=0", "pools.A_b=1", "times.drain=soon", "image.digest=latest", "imagge.tag=x"} {
		if _, err := helm(t, "dcm", "--set", set); err == nil || !strings.Contains(err.Error(), "values don't meet the specifications of the schema") {
			t.Errorf("%s: %v", set, err)
		}
	}
}
