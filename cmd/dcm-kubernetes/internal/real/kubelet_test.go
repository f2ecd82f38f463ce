package real_test

import (
	"fmt"
	"net/http"
	"sync"
)

// play plays all kubelets and the scheduler: pods that are bound run and are ready, those
// that are told to go are gone, and a device plugin that has started tells how many
// partitions there are.
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
	done := make(map[string]bool) // what was begun, by the pod's UID and what
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
	w.do(http.MethodPatch, at+"/status", object{"status": object{"phase": "Running",
		"conditions": []any{object{"type": "Ready", "status": "True", "lastTransitionTime": now()}}}})
	if sub(pod, "metadata", "labels")["app"] == "plugin" {
		w.offer(pod, w.divided)
	}
}

// end is the last of a pod; a plugin that has gone offers nothing.
func (w *world) end(pod object, at string) {
	if sub(pod, "metadata", "labels")["app"] == "plugin" {
		w.offer(pod, func(string) int { return 0 })
	}
	w.do(http.MethodDelete, at, object{"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0})
}

// divided is into how many partitions.
func (w *world) divided(name string) int {
	w.mu.Lock()
	partitions := w.parts[name]
	w.mu.Unlock()
	return partitions()
}

func (w *world) offer(pod object, partitions func(node string) int) {
	name := fmt.Sprint(sub(pod, "spec")["nodeName"])
	n := object{"amd.com/gpu": fmt.Sprint(partitions(name))}
	w.do(http.MethodPatch, nodes+"/"+name+"/status", object{"status": object{"capacity": n, "allocatable": n}})
}
