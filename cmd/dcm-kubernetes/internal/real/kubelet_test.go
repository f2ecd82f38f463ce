package real_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	client "dcm/cmd/dcm-kubernetes/internal/agent"
)

// play simulates the scheduler and all kubelets. A bound pod runs and is ready, and a deleted pod
// ends. A device plugin or DRA driver counts the partitions when it starts.
func (w *world) play() {
	work := make(chan func(), 1<<16)
	for range 16 {
		go func() {
			for {
				select {
				case <-w.ctx.Done():
					return
				case f := <-work:
					f()
				}
			}
		}()
	}
	var mu sync.Mutex
	done := make(map[string]bool) // actions that were started, by the pod's UID and the action
	once := func(key string, f func()) {
		mu.Lock()
		defer mu.Unlock()
		if !done[key] {
			done[key] = true
			work <- f
		}
	}
	go w.watch(w.ctx, "/api/v1/pods", func(kind string, o object) {
		meta, spec := sub(o, "metadata"), sub(o, "spec")
		at := fmt.Sprintf("/api/v1/namespaces/%v/pods/%v", meta["namespace"], meta["name"])
		uid, node := fmt.Sprint(meta["uid"]), spec["nodeName"]
		switch {
		case kind == "DELETED":
		case meta["deletionTimestamp"] != nil && claims(o):
			// It may have to wait for a driver that another action starts.
			once(uid+" end", func() { go w.unprepare(o, at) })
		case meta["deletionTimestamp"] != nil:
			once(uid+" end", func() { w.end(o, at) })
		case node == nil:
			once(uid+" bind", func() { w.bind(o, at) })
		case sub(o, "status")["phase"] != "Running":
			once(uid+" run", func() { w.run(o, at) })
		}
	})
}

func (w *world) bind(pod object, at string) {
	terms, _ := sub(pod, "spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")["nodeSelectorTerms"].([]any)
	if len(terms) == 0 {
		return
	}
	field := terms[0].(object)["matchFields"].([]any)[0].(object)
	w.do(http.MethodPost, at+"/binding", object{"apiVersion": "v1", "kind": "Binding",
		"metadata": object{"name": sub(pod, "metadata")["name"]}, "target": object{"kind": "Node", "name": field["values"].([]any)[0]}})
}

func (w *world) run(pod object, at string) {
	labels := sub(pod, "metadata", "labels")
	if labels["app.kubernetes.io/name"] == "dcm-kubernetes" && w.lacks[node(pod)] {
		return
	}
	if labels["app.kubernetes.io/name"] == "dcm-kubernetes" && w.begin != nil {
		end := w.begin(pod)
		w.t.Cleanup(end)
	}
	w.do(http.MethodPatch, at+"/status", object{"status": object{"phase": "Running",
		"conditions": []any{object{"type": "Ready", "status": "True", "lastTransitionTime": now()}}}})
	switch labels["app"] {
	case "plugin", migPlugin:
		w.held("plugin")
		w.offer(node(pod), pluginOf(pod), true)
	case "driver":
		w.held("driver")
		w.publish(node(pod))
		w.register(node(pod), true)
	}
}

// claims reports whether a pod has claims.
func claims(pod object) bool {
	return sub(pod, "spec")["resourceClaims"] != nil || sub(pod, "status")["extendedResourceClaimStatus"] != nil
}

// register records whether the DRA driver of a node runs.
func (w *world) register(name string, runs bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.driven[name] = runs
	close(w.changed)
	w.changed = make(chan struct{})
}

// unprepare ends a pod with claims as the kubelet does: when its containers have ended, and then only
// while the DRA driver of the node runs, which releases the claims.
func (w *world) unprepare(pod object, at string) {
	if seconds, ok := sub(pod, "spec")["terminationGracePeriodSeconds"].(float64); ok {
		select {
		case <-time.After(time.Duration(seconds) * time.Second): // a shell as PID 1 ignores the signal
		case <-w.ctx.Done():
		}
	}
	for {
		w.mu.Lock()
		changed, runs := w.changed, w.driven[node(pod)]
		w.mu.Unlock()
		if runs {
			w.end(pod, at)
			return
		}
		select {
		case <-changed:
		case <-w.ctx.Done():
			return
		}
	}
}

// held waits until the device plugin or DRA driver may count the partitions.
func (w *world) held(who string) {
	w.mu.Lock()
	hold := w.hold[who]
	w.mu.Unlock()
	if hold == nil {
		return
	}
	select {
	case <-hold:
	case <-w.ctx.Done():
	}
}

// end removes a pod. A device plugin that ended offers nothing. The slices of a driver stay until
// its next pod replaces them.
func (w *world) end(pod object, at string) {
	switch app := sub(pod, "metadata", "labels")["app"]; {
	case sub(pod, "spec")["nodeName"] == nil: // it was deleted before it was bound
	case app == "plugin" || app == migPlugin:
		w.offer(node(pod), pluginOf(pod), false)
	case app == "driver":
		w.register(node(pod), false)
	}
	w.do(http.MethodDelete, at, object{"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0})
}

// rebooted simulates the kubelet after a reboot of its node. It restarts the device plugin, which
// counts the partitions again.
func (w *world) rebooted(name string) {
	w.offer(name, "", false)
	items, _ := w.do(http.MethodGet, pods+"?labelSelector=app+in+(plugin,"+migPlugin+")&fieldSelector=spec.nodeName="+name, nil)["items"].([]any)
	for _, p := range items {
		if sub(p.(object), "metadata")["deletionTimestamp"] == nil {
			w.held("plugin")
			w.offer(name, pluginOf(p.(object)), true)
		}
	}
}

func node(pod object) string { return fmt.Sprint(sub(pod, "spec")["nodeName"]) }

// gpus returns the account of a node.
func (w *world) gpus(name string) client.Account {
	w.mu.Lock()
	account := w.account[name]
	w.mu.Unlock()
	return account()
}

// resources counts the partitions of a node by the names of the vendors' device plugins. NVIDIA's has the
// strategy mixed.
func (w *world) resources(name string) map[string]int {
	out, account := make(map[string]int), w.gpus(name)
	for _, n := range account.Partitions() {
		out["amd.com/gpu"] += n
	}
	for profile, n := range account.MIG().Partitions {
		out[migResource(profile)] = n
	}
	return out
}

// divided returns the number of partitions of a node.
func (w *world) divided(name string) (sum int) {
	for _, n := range w.resources(name) {
		sum += n
	}
	return sum
}

// pluginOf returns the beginning of the resources of a device plugin.
func pluginOf(pod object) string {
	if sub(pod, "metadata", "labels")["app"] == migPlugin {
		return "nvidia.com/"
	}
	return "amd.com/"
}

// offer reports the resources with a prefix as a device plugin does. A plugin that ended offers nothing; the
// names stay.
func (w *world) offer(name, prefix string, running bool) {
	counts := make(object)
	for resource := range sub(w.do(http.MethodGet, nodes+"/"+name, nil), "status", "allocatable") {
		if strings.Contains(resource, ".com/") && strings.HasPrefix(resource, prefix) {
			counts[resource] = "0"
		}
	}
	if running {
		for resource, n := range w.resources(name) {
			if strings.HasPrefix(resource, prefix) {
				counts[resource] = fmt.Sprint(n)
			}
		}
	}
	w.do(http.MethodPatch, nodes+"/"+name+"/status", object{"status": object{"capacity": counts, "allocatable": counts}})
}

const slicesOf = "/apis/resource.k8s.io/v1/resourceslices"

// publish writes the ResourceSlices, as a DRA driver does when it starts.
func (w *world) publish(name string) {
	account := w.gpus(name)
	if account.MIG().GPUs > 0 {
		w.slice(name, "gpu.nvidia.com", migDevices(account))
		return
	}
	w.slice(name, "gpu.amd.com", amdDevices(account))
}

// amdDevices returns the devices that AMD's DRA driver publishes.
func amdDevices(account client.Account) (devices []any) {
	text := func(value string) object { return object{"string": value} }
	for _, g := range account.GPUs {
		for i := range g.Partitions {
			attributes := object{"partitionProfile": text(strings.ToLower(g.Mode.Compute + "_" + g.Mode.Memory))}
			if g.Partitions == 1 {
				attributes["type"], attributes["pciAddr"] = text("amdgpu"), text(g.Address)
			} else {
				attributes["type"], attributes["parentPciAddr"] = text("amdgpu-partition"), text(g.Address)
			}
			devices = append(devices, object{"name": fmt.Sprintf("gpu-%d-%d", g.Index, 128+8*g.Index+i), "attributes": attributes})
		}
	}
	return devices
}

// migDevices returns the devices that NVIDIA's DRA driver publishes. A GPU with MIG on is none.
func migDevices(account client.Account) (devices []any) {
	text := func(value string) object { return object{"string": value} }
	for _, g := range account.GPUs {
		if len(g.Mode.Slices) == 0 && g.Partitions == 1 {
			devices = append(devices, object{"name": fmt.Sprintf("gpu-%d", g.Index), "attributes": object{
				"type": text("gpu"), "uuid": text(g.UUID), "resource.kubernetes.io/pciBusID": text(g.Address)}})
		}
		for i, profile := range g.Mode.Slices {
			devices = append(devices, object{"name": fmt.Sprintf("gpu-%d-mig-%d", g.Index, i), "attributes": object{
				"type": text("mig"), "uuid": text(fmt.Sprintf("MIG-%d-%d", g.Index, i)), "parentUUID": text(g.UUID), "profile": text(profile)}})
		}
	}
	return devices
}

// slice replaces the ResourceSlice of a node.
func (w *world) slice(name, driver string, devices []any) {
	w.do(http.MethodDelete, slicesOf+"/"+name, nil)
	w.do(http.MethodPost, slicesOf, object{"metadata": object{"name": name}, "spec": object{"driver": driver, "nodeName": name,
		"pool": object{"name": name, "generation": 1, "resourceSliceCount": 1}, "devices": devices}})
}
