// Package cluster calls the API server. It reads and changes the objects that the agent
// needs and converts them for package sequence. It decides nothing.
package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	events "k8s.io/api/events/v1"
	policy "k8s.io/api/policy/v1"
	resource "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"dcm/cmd/dcm-kubernetes/internal/sequence"
	"dcm/cmd/dcm-kubernetes/internal/vendor"
)

// Client is the agent's access. It contains five API groups only, since all groups together
// would be half of the program.
type Client struct {
	core, coordination, events, resource rest.Interface

	namespace string // of the leases and of the agent
}

// New returns a client with the address and the credentials of config.
func New(config *rest.Config, namespace string) (*Client, error) {
	shared, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("cannot connect to the API server: %w", err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{core.AddToScheme, coordination.AddToScheme, events.AddToScheme, policy.AddToScheme, resource.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	c := &Client{namespace: namespace}
	codecs := serializer.NewCodecFactory(scheme).WithoutConversion()
	for _, of := range []struct {
		client *rest.Interface
		group  schema.GroupVersion
	}{
		{&c.core, core.SchemeGroupVersion},
		{&c.coordination, coordination.SchemeGroupVersion},
		{&c.events, events.SchemeGroupVersion},
		{&c.resource, resource.SchemeGroupVersion},
	} {
		if *of.client, err = group(config, shared, of.group, codecs); err != nil {
			return nil, fmt.Errorf("cannot connect to the API server: %w", err)
		}
	}
	return c, nil
}

func group(config *rest.Config, shared *http.Client, gv schema.GroupVersion, codecs runtime.NegotiatedSerializer) (rest.Interface, error) {
	own := rest.CopyConfig(config)
	own.GroupVersion, own.NegotiatedSerializer = &gv, codecs
	own.APIPath = "/apis"
	if gv.Group == "" {
		own.APIPath = "/api"
	}
	return rest.RESTClientForConfigAndClient(own, shared)
}

// Node reads a node.
func (c *Client) Node(ctx context.Context, name string) (*core.Node, error) {
	node := &core.Node{}
	err := c.core.Get().Resource("nodes").Name(name).Do(ctx).Into(node)
	return node, wrap(err, "read the node %s", name)
}

// Watch keeps a copy of one node. It calls changed after each change, and begun whenever the watch
// begins: at the start, and after an outage of the API server.
func (c *Client) Watch(ctx context.Context, name string, changed, begun func()) (latest func() *core.Node) {
	lw := cache.NewListWatchFromClient(c.core, "nodes", meta.NamespaceAll, fields.OneTermEqualSelector("metadata.name", name))
	list, begin := lw.ListWithContextFunc, lw.WatchFuncWithContext
	lw.ListWithContextFunc = func(ctx context.Context, options meta.ListOptions) (runtime.Object, error) {
		return persist(ctx, reconnectInterval, func(ctx context.Context) (runtime.Object, error) { return list(ctx, options) })
	}
	lw.WatchFuncWithContext = func(ctx context.Context, options meta.ListOptions) (watch.Interface, error) {
		w, err := persist(ctx, reconnectInterval, func(ctx context.Context) (watch.Interface, error) { return begin(ctx, options) })
		if err == nil {
			begun()
		}
		return w, err
	}
	call := func(any) { changed() }
	store, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: lw,
		ObjectType:    &core.Node{},
		Handler:       cache.ResourceEventHandlerFuncs{AddFunc: call, UpdateFunc: func(_, now any) { changed() }, DeleteFunc: call},
		Transform:     small,
	})
	go controller.RunWithContext(ctx)
	return func() *core.Node {
		for _, o := range store.List() {
			if node, ok := o.(*core.Node); ok {
				return node
			}
		}
		return nil
	}
}

// small removes large fields that the agent does not use.
func small(o any) (any, error) {
	if node, ok := o.(*core.Node); ok {
		node.ManagedFields, node.Status.Images = nil, nil
	}
	return o, nil
}

// PatchNode applies a merge patch to a node.
func (c *Client) PatchNode(ctx context.Context, name string, patch []byte) error {
	err := c.core.Patch(types.MergePatchType).Resource("nodes").Name(name).Body(patch).Do(ctx).Error()
	return wrap(err, "change the node %s", name)
}

// SetCondition writes the condition and leaves the kubelet's conditions unchanged.
func (c *Client) SetCondition(ctx context.Context, node string, now time.Time, to sequence.Condition, turned bool) error {
	condition := map[string]any{"type": ConditionType, "status": to.Status, "reason": to.Reason, "message": to.Message, "lastHeartbeatTime": meta.NewTime(now)}
	if turned {
		condition["lastTransitionTime"] = meta.NewTime(now)
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []any{condition}}})
	if err == nil {
		err = c.core.Patch(types.StrategicMergePatchType).Resource("nodes").Name(node).SubResource("status").Body(patch).Do(ctx).Error()
	}
	return wrap(err, "set the condition of the node %s", node)
}

// Pods lists the pods of a node.
func (c *Client) Pods(ctx context.Context, node string) ([]core.Pod, error) {
	pods := &core.PodList{}
	err := c.core.Get().Resource("pods").Param("fieldSelector", "spec.nodeName="+node).Do(ctx).Into(pods)
	return pods.Items, wrap(err, "list the pods of %s", node)
}

// Evict requests the eviction of a pod. It does not wait if the server asks for a retry
// later, since that would block all other work; the caller does.
func (c *Client) Evict(ctx context.Context, namespace, name, uid string) error {
	eviction := &policy.Eviction{ObjectMeta: meta.ObjectMeta{Namespace: namespace, Name: name}, DeleteOptions: only(uid)}
	err := c.core.Post().Namespace(namespace).Resource("pods").Name(name).SubResource("eviction").
		Body(eviction).MaxRetries(0).Do(ctx).Error()
	return wrap(err, "evict %s/%s", namespace, name)
}

// Delete deletes a pod.
func (c *Client) Delete(ctx context.Context, namespace, name, uid string) error {
	err := c.core.Delete().Namespace(namespace).Resource("pods").Name(name).Body(only(uid)).Do(ctx).Error()
	return wrap(err, "delete %s/%s", namespace, name)
}

// only restricts a deletion to the pod with that UID.
func only(uid string) *meta.DeleteOptions {
	id := types.UID(uid)
	return &meta.DeleteOptions{Preconditions: &meta.Preconditions{UID: &id}}
}

// claimed returns the GPUs and partitions of a claim as "POOL/DEVICE". Administrative access counts: its pod
// has the device nodes, and the kubelet needs the driver to end it.
func (c *Client) claimed(ctx context.Context, v *vendor.Vendor, namespace, name string) (devices []string, err error) {
	claim := &resource.ResourceClaim{}
	if err := served(c.resource.Get().Namespace(namespace).Resource("resourceclaims").Name(name).Do(ctx).Into(claim)); err != nil {
		return nil, wrap(err, "read the claim %s/%s", namespace, name)
	}
	if claim.Status.Allocation == nil {
		return nil, nil
	}
	for _, r := range claim.Status.Allocation.Devices.Results {
		if r.Driver == v.Driver {
			devices = append(devices, r.Pool+"/"+r.Device)
		}
	}
	return devices, nil
}

// Slices reads the devices that the DRA driver publishes on a node.
func (c *Client) Slices(ctx context.Context, v *vendor.Vendor, node string) (Published, error) {
	list := &resource.ResourceSliceList{}
	err := served(c.resource.Get().Resource("resourceslices").Param("fieldSelector", "spec.nodeName="+node+",spec.driver="+v.Driver).Do(ctx).Into(list))
	if err != nil {
		return Published{}, wrap(err, "list the ResourceSlices of %s", node)
	}
	return ViewPublished(v, list.Items), nil
}

// VersionError reports an API that an older Kubernetes does not serve.
type VersionError struct{ API, Since string }

func (e *VersionError) Error() string {
	return fmt.Sprintf("the API server does not serve %s. hint: ResourceClaims of GPUs need Kubernetes %s or later", e.API, e.Since)
}

// served returns a [VersionError] if the server does not know the resource itself. Without it, a
// claim would look deleted, and its pod would not be evicted.
func served(err error) error {
	if errors.IsNotFound(err) && errors.HasStatusCause(err, meta.CauseTypeUnexpectedServerResponse) {
		return &VersionError{API: resource.SchemeGroupVersion.String(), Since: "1.34"}
	}
	return err
}

func wrap(err error, format string, a ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("cannot "+format+": %w", append(a, err)...)
}
