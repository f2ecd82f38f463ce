package cluster_test

import (
	"fmt"
	"slices"
	"testing"

	"dcm/cmd/dcm-kubernetes/internal/vendor"
)

// Kubernetes 1.36 has DeviceTaintRules in v1beta2 only, and off by default; 1.37 has them in v1.
func TestDeviceTaints_Versions(t *testing.T) {
	const v1, v1beta2 = "resource.k8s.io/v1", "resource.k8s.io/v1beta2"
	for _, tt := range []struct {
		name, want string
		served     []string
	}{
		{"1.35", "", nil},
		{"1.36 with the option", v1beta2, []string{v1beta2}},
		{"1.37", v1, []string{v1}},
		{"1.37 with the option", v1, []string{v1beta2, v1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			api, client := claims(t, nil)
			api.Taints = tt.served
			none, err := client.DeviceTaints(t.Context(), "n1")
			if err != nil || none.Served != (tt.want != "") || len(none.Devices) > 0 {
				t.Fatalf("before: %+v, %v", none, err)
			}
			if tt.want == "" {
				return
			}
			if err := client.TaintDevice(t.Context(), vendor.NVIDIA, "n1", "gpu-0"); err != nil {
				t.Fatal(err)
			}
			if o := api.Get(tt.want + "/devicetaintrules/dcm-n1.gpu-0"); o == nil || o["apiVersion"] != tt.want {
				t.Errorf("the rule is %v of %q", o, api.Requests())
			}
			if got, err := client.DeviceTaints(t.Context(), "n1"); err != nil || fmt.Sprint(got.Devices) != "[gpu-0]" {
				t.Errorf("tainted: %+v, %v", got, err)
			}
			if err := client.UntaintDevice(t.Context(), "n1", "gpu-0"); err != nil || api.Get(tt.want+"/devicetaintrules/dcm-n1.gpu-0") != nil {
				t.Errorf("after the end: %v of %q", err, slices.Clone(api.Requests()))
			}
		})
	}
}
