package cluster_test

import (
	"fmt"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"dcm/cmd/dcm-kubernetes/internal/cluster"
	"dcm/cmd/dcm-kubernetes/internal/sequence"
	"dcm/cmd/dcm-kubernetes/internal/standin"
	"dcm/cmd/dcm-kubernetes/internal/vendor"
)

func pod(kind string, change func(*core.Pod)) core.Pod {
	yes := true
	p := core.Pod{ObjectMeta: meta.ObjectMeta{Namespace: "d", Name: "p"}, Spec: core.PodSpec{Containers: []core.Container{{}}}}
	if kind != "" {
		p.OwnerReferences = []meta.OwnerReference{{Kind: kind, Name: "o", Controller: &yes}}
	}
	change(&p)
	return p
}

func mounts(path string) func(*core.Pod) {
	return func(p *core.Pod) {
		p.Spec.Volumes = []core.Volume{{VolumeSource: core.VolumeSource{HostPath: &core.HostPathVolumeSource{Path: path}}}}
	}
}

func runs(image string) func(*core.Pod) {
	return func(p *core.Pod) { p.Spec.Containers[0].Image = image }
}

func has(name core.ResourceName) func(*core.Pod) {
	return func(p *core.Pod) { p.Spec.Containers[0].Resources.Limits = core.ResourceList{name: {}} }
}

func TestViewPods(t *testing.T) {
	tests := map[string]struct {
		pod  core.Pod
		want string
	}{
		"a GPU":                       {pod("ReplicaSet", has("amd.com/gpu")), "work"},
		"a partition":                 {pod("Job", has("amd.com/cpx_nps8")), "work"},
		"a network card":              {pod("Job", has("amd.com/nic")), ""},
		"CPUs":                        {pod("ReplicaSet", has("cpu")), ""},
		"the driver's node":           {pod("Job", mounts("/dev/kfd/")), "work"},
		"all of /dev":                 {pod("Job", mounts("/dev")), "work"},
		"all of /dev in a DaemonSet":  {pod("DaemonSet", mounts("/dev")), ""},
		"the driver's, a DaemonSet's": {pod("DaemonSet", mounts("/dev/dri/renderD128")), "operand"},
		"the plugin":                  {pod("DaemonSet", runs("docker.io/rocm/k8s-device-plugin:1.31@sha256:0")), "operand"},
		"another vendor's plugin": {pod("DaemonSet", func(p *core.Pod) {
			mounts("/var/lib/kubelet/device-plugins")(p)
			runs("nvcr.io/nvidia/k8s-device-plugin:v0.20.0")(p)
		}), ""},
		"the exporter":        {pod("DaemonSet", runs("localhost:5000/device-metrics-exporter")), "operand"},
		"labelled as operand": {pod("DaemonSet", func(p *core.Pod) { p.Labels = map[string]string{cluster.Operand: "true"} }), "operand"},
		"another DaemonSet's": {pod("DaemonSet", runs("calico/node:v3")), ""},
		"ended":               {pod("Job", func(p *core.Pod) { has("amd.com/gpu")(p); p.Status.Phase = core.PodSucceeded }), ""},
		"the agent":           {pod("DaemonSet", func(p *core.Pod) { p.Name = "self"; mounts("/dev/kfd")(p) }), ""},
		"AMD's manager":       {pod("DaemonSet", runs("rocm/device-config-manager:v1.5.0")), "rival"},
		"the DRA driver":      {pod("DaemonSet", runs("rocm/k8s-gpu-dra-driver:v1")), "operand"},
		"the DRA driver, with partitions": {pod("DaemonSet", func(p *core.Pod) {
			runs("rocm/k8s-gpu-dra-driver:v1")(p)
			p.Spec.Containers[0].Args = []string{"--feature-gates=X=true,AutoPartition=true"}
		}), "rival operand"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := cluster.ViewPods(t.Context(), new(cluster.Client), vendor.AMD, []core.Pod{tt.pod}, cluster.Self{Namespace: "d", Name: "self"})
			if err != nil {
				t.Fatal(err)
			}
			var words []string
			if got.Rival != "" {
				words = append(words, "rival")
			}
			if len(got.Work) > 0 {
				words = append(words, "work")
			}
			if len(got.Operands) > 0 {
				words = append(words, "operand")
			}
			if strings.Join(words, " ") != tt.want {
				t.Errorf("it is %q, want %q", words, tt.want)
			}
		})
	}
}

// claims serves the claims of namespace d.
func claims(t *testing.T, results map[string]standin.Object) (*standin.API, *cluster.Client) {
	t.Helper()
	api := standin.NewAPI(t)
	for name, result := range results {
		api.Put("resource.k8s.io/v1/namespaces/d/resourceclaims/"+name, standin.Object{"kind": "ResourceClaim", "apiVersion": "resource.k8s.io/v1",
			"metadata": standin.Object{"namespace": "d", "name": name},
			"status":   standin.Object{"allocation": standin.Object{"devices": standin.Object{"results": []any{result}}}}})
	}
	client, err := cluster.New(&rest.Config{Host: api.URL, QPS: -1}, "d")
	if err != nil {
		t.Fatal(err)
	}
	return api, client
}

// A pod has its GPU through a claim that was created for it, through a named claim that pods may
// share, or through a claim that the scheduler created for an extended resource.
func TestPods_Claims(t *testing.T) {
	api, client := claims(t, map[string]standin.Object{
		"gpu":   {"driver": "gpu.amd.com", "pool": "n1", "device": "gpu-0"},
		"nic":   {"driver": "nic.example.org", "pool": "n1", "device": "nic-0"},
		"admin": {"driver": "gpu.amd.com", "pool": "n1", "device": "gpu-0", "adminAccess": true},
	})
	template, named, made, admin := "template", "gpu", "gpu", "admin"
	byName := func(claim string) func(*core.Pod) {
		return func(p *core.Pod) {
			p.Spec.ResourceClaims = []core.PodResourceClaim{{Name: "c", ResourceClaimName: &claim}}
		}
	}
	tests := map[string]struct {
		pod  core.Pod
		want int
	}{
		"from a template": {pod("Job", func(p *core.Pod) {
			p.Spec.ResourceClaims = []core.PodResourceClaim{{Name: "c", ResourceClaimTemplateName: &template}}
			p.Status.ResourceClaimStatuses = []core.PodResourceClaimStatus{{Name: "c", ResourceClaimName: &made}}
		}), 1},
		"from a template, without a claim": {pod("Job", func(p *core.Pod) {
			p.Spec.ResourceClaims = []core.PodResourceClaim{{Name: "c", ResourceClaimTemplateName: &template}}
			p.Status.ResourceClaimStatuses = []core.PodResourceClaimStatus{{Name: "c"}}
		}), 0},
		"named": {pod("Job", byName(named)), 1},
		"named, with the status that older servers write": {pod("Job", func(p *core.Pod) {
			byName(named)(p)
			p.Status.ResourceClaimStatuses = []core.PodResourceClaimStatus{{Name: "c", ResourceClaimName: &named}}
		}), 1},
		"an extended resource": {pod("Job", func(p *core.Pod) {
			has("deviceclass.resource.kubernetes.io/gpu.amd.com")(p)
			p.Status.ExtendedResourceClaimStatus = &core.PodExtendedResourceClaimStatus{ResourceClaimName: made}
		}), 1},
		"another driver's": {pod("Job", byName("nic")), 0},
		"administrative only": {pod("Job", func(p *core.Pod) {
			byName("admin")(p)
			p.Status.ResourceClaimStatuses = []core.PodResourceClaimStatus{{Name: "c", ResourceClaimName: &admin}}
		}), 1},
		"a deleted claim": {pod("Job", byName("gone")), 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := cluster.ViewPods(t.Context(), client, vendor.AMD, []core.Pod{tt.pod}, cluster.Self{})
			if err != nil || len(got.Work) != tt.want {
				t.Errorf("work is %+v, want %d pods; %v", got, tt.want, err)
			}
		})
	}
	before := len(api.Requests())
	shared := pod("Job", byName(named))
	if got, err := cluster.ViewPods(t.Context(), client, vendor.AMD, []core.Pod{shared, shared, shared}, cluster.Self{}); err != nil || len(got.Work) != 3 {
		t.Errorf("work is %+v; %v", got, err)
	}
	if n := len(api.Requests()) - before; n != 1 {
		t.Errorf("the shared claim was read %d times", n)
	}
}

// Before Kubernetes 1.34 the server answers 404 for each claim. A pod with a GPU must not be taken for
// one without.
func TestPods_OldServer(t *testing.T) {
	api, client := claims(t, nil)
	api.Old = true
	name := "gpu"
	p := pod("Job", func(p *core.Pod) {
		p.Spec.ResourceClaims = []core.PodResourceClaim{{Name: "c", ResourceClaimName: &name}}
	})
	const want = "the API server does not serve resource.k8s.io/v1. hint: ResourceClaims of GPUs need Kubernetes 1.34 or later"
	if _, err := cluster.ViewPods(t.Context(), client, vendor.AMD, []core.Pod{p}, cluster.Self{}); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("error is %v, want %s", err, want)
	}
	if _, err := client.Slices(t.Context(), vendor.AMD, "n1"); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("error is %v, want %s", err, want)
	}
}

// After an outage the agent may wait to retry a request, and the node has not changed.
func TestWatch_ReportsReconnection(t *testing.T) {
	api, client := claims(t, nil)
	api.Put("v1/nodes/n1", standin.Object{"kind": "Node", "apiVersion": "v1", "metadata": standin.Object{"name": "n1"}})
	changed, begun := make(chan struct{}), make(chan struct{})
	send := func(to chan<- struct{}) func() {
		return func() {
			select {
			case to <- struct{}{}:
			case <-t.Context().Done():
			}
		}
	}
	client.Watch(t.Context(), "n1", send(changed), send(begun))
	<-changed
	<-begun
	api.Disconnect()
	<-begun
}

func TestRender_KeepsOtherTaints(t *testing.T) {
	node := &core.Node{ObjectMeta: meta.ObjectMeta{ResourceVersion: "7"}, Spec: core.NodeSpec{
		Taints: []core.Taint{{Key: "amd-dcm", Value: "up", Effect: core.TaintEffectNoExecute}}}}
	got, err := cluster.Render(node, sequence.Patch{Op: &sequence.Operation{ID: "a", Phase: sequence.Draining}, State: "in-progress", Cordon: true, Taint: true})
	want := `{"metadata":{"annotations":{"deviceconfig.org/operation":"{\"id\":\"a\",\"profile\":\"\",\"configHash\":\"\",\"phase\":\"draining\",\"wasCordoned\":false,\"wasTainted\":false,\"since\":\"0001-01-01T00:00:00Z\"}"},` +
		`"labels":{"dcm.amd.com/gpu-config-profile-state":"in-progress"},"resourceVersion":"7"},` +
		`"spec":{"taints":[{"key":"amd-dcm","value":"up","effect":"NoExecute"},{"key":"amd-dcm","value":"up","effect":"NoSchedule"}],"unschedulable":true}}`
	if err != nil || string(got) != want {
		t.Errorf("the patch is\n%s, %v, want\n%s", got, err, want)
	}
	node.Spec = core.NodeSpec{Unschedulable: true, Taints: []core.Taint{{Key: "amd-dcm", Value: "up", Effect: core.TaintEffectNoSchedule}}}
	got, err = cluster.Render(node, sequence.Patch{})
	want = `{"metadata":{"annotations":{"deviceconfig.org/operation":null},"labels":{"dcm.amd.com/gpu-config-profile-state":null},"resourceVersion":"7"},` +
		`"spec":{"taints":null,"unschedulable":null}}`
	if err != nil || string(got) != want {
		t.Errorf("the patch is\n%s, %v, want\n%s", got, err, want)
	}
}

func TestRender_RemovesTheStateOfAConflict(t *testing.T) {
	const amd, nvidia = "dcm.amd.com/gpu-config-profile", "nvidia.com/mig.config"
	for _, tt := range []struct {
		name     string
		profiles map[string]string
		want     string
	}{
		{"the conflict", map[string]string{amd: "a", nvidia: "b"}, `{"dcm.amd.com/gpu-config-profile-state":"failure","nvidia.com/mig.config.state":"failed"}`},
		{"after it", map[string]string{amd: "a"}, `{"dcm.amd.com/gpu-config-profile-state":"failure","nvidia.com/mig.config.state":null}`},
	} {
		node := &core.Node{ObjectMeta: meta.ObjectMeta{Labels: tt.profiles}}
		node.Labels["nvidia.com/mig.config.state"] = "failed"
		got, err := cluster.Render(node, sequence.Patch{State: "failure"})
		if err != nil || !strings.Contains(string(got), `"labels":`+tt.want) {
			t.Errorf("%s: the patch is %s, %v, want the labels %s", tt.name, got, err, tt.want)
		}
	}
}

func TestView_UnreadableAnnotation(t *testing.T) {
	node := &core.Node{ObjectMeta: meta.ObjectMeta{Name: "n1", Annotations: map[string]string{cluster.Operation: "{"}}}
	if _, err := cluster.View(node); err == nil || !strings.Contains(err.Error(), "node n1: annotation deviceconfig.org/operation: not valid") {
		t.Errorf("error is %v", err)
	}
}

func TestView_DrainLimit(t *testing.T) {
	for text, want := range map[string]string{
		"8h": "8h0m0s", "0": "0s",
		"8":   `node n1: annotation deviceconfig.org/drain: not valid (found "8", want a duration such as 8h, or 0 for no limit)`,
		"-1s": `node n1: annotation deviceconfig.org/drain: not valid (found "-1s", want a duration such as 8h, or 0 for no limit)`,
	} {
		node, err := cluster.View(&core.Node{ObjectMeta: meta.ObjectMeta{Name: "n1", Annotations: map[string]string{cluster.Drain: text}}})
		got := fmt.Sprint(err)
		if node.Drain != nil {
			got = node.Drain.String()
		}
		if got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
	if node, err := cluster.View(&core.Node{}); err != nil || node.Drain != nil {
		t.Errorf("without the annotation: %v, %v", node.Drain, err)
	}
}

// An operand with a claim has to leave before the DRA driver, also if the claim is for monitoring only.
func TestPods_OperandsWithClaims(t *testing.T) {
	_, client := claims(t, map[string]standin.Object{
		"admin": {"driver": "gpu.nvidia.com", "pool": "n1", "device": "gpu-0", "adminAccess": true},
		"nic":   {"driver": "nic.example.org", "pool": "n1", "device": "nic-0"},
	})
	claiming := func(name, image, at string) core.Pod {
		return pod("DaemonSet", func(p *core.Pod) {
			mounts(at)(p)
			runs(image)(p)
			p.Spec.ResourceClaims = []core.PodResourceClaim{{Name: "c", ResourceClaimName: &name}}
		})
	}
	const exporter, driver = "nvcr.io/nvidia/k8s/dcgm-exporter:4.6.0", "nvcr.io/nvidia/dra-driver-nvidia-gpu:v0.5.0"
	for _, tt := range []struct {
		name string
		pod  core.Pod
		want string // claims, driver
	}{
		{"an exporter", claiming("admin", exporter, "/tmp"), "true false"},
		{"an exporter with device nodes", claiming("admin", exporter, "/dev/nvidia0"), "true false"},
		{"of another chart", claiming("admin", "example.org/exporter:1", "/tmp"), "true false"},
		{"a claim of another driver", claiming("nic", exporter, "/tmp"), "false false"},
		{"the driver", pod("DaemonSet", runs(driver)), "false true"},
	} {
		got, err := cluster.ViewPods(t.Context(), client, vendor.NVIDIA, []core.Pod{tt.pod}, cluster.Self{})
		if err != nil || len(got.Operands) != 1 || len(got.Work) != 0 {
			t.Errorf("%s: %+v, %v", tt.name, got, err)
			continue
		}
		if text := fmt.Sprint(got.Operands[0].Claims, " ", got.Operands[0].Driver); text != tt.want {
			t.Errorf("%s: claims and driver are %s, want %s", tt.name, text, tt.want)
		}
	}
}
