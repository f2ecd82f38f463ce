package cluster

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	resource "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/errors"

	"dcm/cmd/dcm-kubernetes/internal/sequence"
	"dcm/cmd/dcm-kubernetes/internal/vendor"
)

// taintVersions are the versions of the API with DeviceTaintRules, the newest first. Kubernetes serves v1 from 1.37 on,
// and v1beta2 from 1.36 on, but not by default. Their fields are the same. The types of v1beta2 would only make the
// program larger.
var taintVersions = [...]string{"resource.k8s.io/v1", "resource.k8s.io/v1beta2"}

// taintPath returns the path of the DeviceTaintRules in a version of the API.
func taintPath(version string) string { return "/apis/" + version + "/devicetaintrules" }

// changing is the key of the taint of a device, and the label of the rules.
const changing = "deviceconfig.org/changing"

// deviceTaintRule has the fields of a DeviceTaintRule that the agent uses.
type deviceTaintRule struct {
	Kind     string `json:"kind"`
	Version  string `json:"apiVersion"`
	Metadata struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		Selector struct {
			Driver string `json:"driver"`
			Pool   string `json:"pool"`
			Device string `json:"device"`
		} `json:"deviceSelector"`
		Taint struct {
			Key    string `json:"key"`
			Value  string `json:"value"`
			Effect string `json:"effect"`
		} `json:"taint"`
	} `json:"spec"`
}

// DeviceTaints returns the rules of a node, whose pool has its name. A server that does not serve them
// to this agent has none.
func (c *Client) DeviceTaints(ctx context.Context, node string) (*sequence.DeviceTaints, error) {
	_, list, err := c.taintRules(ctx)
	if errors.IsNotFound(err) || errors.IsForbidden(err) {
		return &sequence.DeviceTaints{}, nil
	}
	if err != nil {
		return nil, wrap(err, "list the DeviceTaintRules of %s", node)
	}
	out := &sequence.DeviceTaints{Served: true}
	for _, r := range list {
		if r.Spec.Selector.Pool == node && strings.HasPrefix(r.Metadata.Name, "dcm-") {
			out.Devices = append(out.Devices, r.Spec.Selector.Device)
		}
	}
	slices.Sort(out.Devices)
	return out, nil
}

// taintRules lists the rules of all nodes, with the newest version of the API that the server has.
func (c *Client) taintRules(ctx context.Context) (version string, rules []deviceTaintRule, err error) {
	for _, version = range taintVersions {
		var text []byte
		text, err = c.resource.Get().AbsPath(taintPath(version)).Param("labelSelector", changing).Do(ctx).Raw()
		if errors.IsNotFound(err) {
			continue
		}
		var list struct{ Items []deviceTaintRule }
		if err == nil {
			err = json.Unmarshal(text, &list)
		}
		return version, list.Items, err
	}
	return "", nil, err
}

// TaintDevice keeps the scheduler from allocating a device of a node. It evicts no pod.
func (c *Client) TaintDevice(ctx context.Context, v *vendor.Vendor, node, device string) error {
	version, _, err := c.taintRules(ctx)
	var r deviceTaintRule
	r.Kind, r.Version = "DeviceTaintRule", version
	r.Metadata.Name, r.Metadata.Labels = ruleName(node, device), map[string]string{changing: "true"}
	r.Spec.Selector.Driver, r.Spec.Selector.Pool, r.Spec.Selector.Device = v.Driver, node, device
	r.Spec.Taint.Key, r.Spec.Taint.Value, r.Spec.Taint.Effect = changing, "true", string(resource.DeviceTaintEffectNoSchedule)
	var body []byte
	if err == nil {
		body, err = json.Marshal(r)
	}
	if err == nil {
		err = c.resource.Post().AbsPath(taintPath(version)).Body(body).Do(ctx).Error()
	}
	if errors.IsAlreadyExists(err) {
		return nil
	}
	return wrap(err, "create the DeviceTaintRule %s", r.Metadata.Name)
}

// UntaintDevice deletes the rule of a device.
func (c *Client) UntaintDevice(ctx context.Context, node, device string) error {
	name := ruleName(node, device)
	version, _, err := c.taintRules(ctx)
	if err == nil {
		err = c.resource.Delete().AbsPath(taintPath(version), name).Do(ctx).Error()
	}
	return wrap(ignoreNotFound(err), "delete the DeviceTaintRule %s", name)
}

func ruleName(node, device string) string { return "dcm-" + node + "." + device }
