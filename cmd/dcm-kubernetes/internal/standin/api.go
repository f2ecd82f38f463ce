package standin

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Object is an object of the API in the form that encoding/json returns.
type Object = map[string]any

// API is a server with the part of the Kubernetes API that the agent uses. It keeps resource
// versions and rejects an outdated one.
type API struct {
	URL string
	// Evict, if set, returns the status and the message of a refused eviction.
	Evict func(name string) (code int, message string)
	// After is called after each change of a node, with the lock held.
	After func(t Tree, node Object)
	// Taints are the versions of the API with DeviceTaintRules.
	Taints []string
	// Deny, if set, reports whether a request lacks a right.
	Deny func(request string) bool
	// End, if set, reports whether a deleted pod ends immediately. Otherwise it terminates.
	End func(pod Object) bool
	// Old is set for a server without resource.k8s.io/v1.
	Old bool
	// Meet, if set, is called for each request except a watch, before and after its effect.
	// The server closes the connection there if Meet returns true.
	Meet func(request string, after bool) (cut bool)

	server   *httptest.Server
	mu       sync.Mutex
	version  int
	objects  map[string]Object // by path
	requests []string
	changed  chan struct{}
}

// NewAPI returns a server that runs until the test ends.
func NewAPI(t *testing.T) *API {
	a := &API{objects: make(map[string]Object), changed: make(chan struct{})}
	server := httptest.NewUnstartedServer(a)
	server.Config.ErrorLog = nil
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	a.URL, a.server = server.URL, server
	return a
}

// Disconnect ends all connections.
func (a *API) Disconnect() { a.server.CloseClientConnections() }

// Put creates or replaces an object.
func (a *API) Put(path string, o Object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.put(path, o)
}

// Get returns a copy of an object; nil if it does not exist.
func (a *API) Get(path string) Object {
	a.mu.Lock()
	defer a.mu.Unlock()
	return clone(a.objects[path])
}

// Do calls f with the objects, with the lock held.
func (a *API) Do(f func(Tree)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f(Tree{a})
}

// Tree accesses the objects. The caller holds the lock.
type Tree struct{ a *API }

// Get returns the object, not a copy.
func (t Tree) Get(path string) Object { return t.a.objects[path] }

// Put creates or replaces an object.
func (t Tree) Put(path string, o Object) { t.a.put(path, o) }

// Delete deletes an object, if it exists.
func (t Tree) Delete(path string) { t.a.remove(path) }

// End deletes a pod as a client does.
func (t Tree) End(path string) { t.a.end(path) }

// Changed returns a channel that is closed with the next change.
func (a *API) Changed() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.changed
}

// Requests returns the requests so far, without watches.
func (a *API) Requests() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.requests...)
}

func (a *API) put(path string, o Object) {
	a.version++
	Sub(o, "metadata")["resourceVersion"] = strconv.Itoa(a.version)
	a.objects[path] = o
	a.tell()
}

func (a *API) tell() {
	close(a.changed)
	a.changed = make(chan struct{})
}

// Sub returns the object inside an object, and creates it if it is missing.
func Sub(o Object, keys ...string) Object {
	for _, k := range keys {
		next, ok := o[k].(Object)
		if !ok {
			next = Object{}
			o[k] = next
		}
		o = next
	}
	return o
}

func clone(o Object) Object {
	if o == nil {
		return nil
	}
	text, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	var out Object
	if err := json.Unmarshal(text, &out); err != nil {
		panic(err)
	}
	return out
}

func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/apis/"), "/api/")
	query := r.URL.Query()
	if query.Get("watch") != "" {
		a.watch(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	request := r.Method + " " + path
	a.mu.Lock()
	a.requests = append(a.requests, request)
	a.mu.Unlock()
	if a.Meet != nil && a.Meet(request, false) {
		panic(http.ErrAbortHandler)
	}
	if a.Old && strings.HasPrefix(path, "resource.k8s.io/v1/") {
		http.NotFound(w, r)
		return
	}
	if version, is := strings.CutSuffix(path, "/devicetaintrules"); is && !slices.Contains(a.Taints, version) {
		http.NotFound(w, r)
		return
	}
	code, answer := failure(403, "Forbidden", request+" is forbidden", nil)
	if a.Deny == nil || !a.Deny(request) {
		code, answer = a.serve(r.Method, path, query.Get("fieldSelector"), body)
	}
	if a.Meet != nil && a.Meet(request, true) {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	if code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "10")
	}
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(answer)
}

// serve returns a copy, which is written to the client without the lock.
func (a *API) serve(method, path, selector string, body []byte) (int, Object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	code, answer := a.answer(method, path, selector, body)
	return code, clone(answer)
}

func (a *API) answer(method, path, selector string, body []byte) (int, Object) {
	at, sub := path, ""
	for _, s := range []string{"/status", "/eviction"} {
		if base, ok := strings.CutSuffix(path, s); ok {
			at, sub = base, s
		}
	}
	o := a.objects[at]
	switch {
	case method == http.MethodGet && o == nil && isList(path):
		return 200, a.list(path, selector)
	case method == http.MethodPost && sub == "":
		return a.create(path, body)
	case o == nil:
		return failure(404, "NotFound", path+" not found", nil)
	case method == http.MethodGet:
		return 200, o
	case method == http.MethodPost && sub == "/eviction":
		return a.evict(at)
	case method == http.MethodDelete:
		return a.end(at)
	case method == http.MethodPatch || method == http.MethodPut:
		return a.change(at, sub, method, body)
	}
	return failure(405, "MethodNotAllowed", method, nil)
}

func (a *API) change(at, sub, method string, body []byte) (int, Object) {
	var patch Object
	if err := json.Unmarshal(body, &patch); err != nil {
		return failure(400, "BadRequest", err.Error(), nil)
	}
	o := clone(a.objects[at])
	now := Sub(o, "metadata")["resourceVersion"]
	if meta, ok := patch["metadata"].(Object); ok && meta["resourceVersion"] != nil && meta["resourceVersion"] != now {
		return failure(409, "Conflict", "the object has been modified", nil)
	}
	switch {
	case method == http.MethodPut:
		o = patch
	case sub == "/status":
		conditions(o, patch)
	default:
		merge(o, patch)
	}
	a.put(at, o)
	if strings.Contains(at, "/nodes/") && a.After != nil {
		a.After(Tree{a}, o)
	}
	return 200, a.objects[at]
}

// merge applies a JSON merge patch (RFC 7386).
func merge(into, patch Object) {
	for k, v := range patch {
		switch v := v.(type) {
		case nil:
			delete(into, k)
		case Object:
			merge(Sub(into, k), v)
		default:
			into[k] = v
		}
	}
}

// conditions merges conditions by their type, as a strategic merge patch does.
func conditions(into, patch Object) {
	status := Sub(into, "status")
	all, _ := status["conditions"].([]any)
	for _, c := range patch["status"].(Object)["conditions"].([]any) {
		i := 0
		for i < len(all) && all[i].(Object)["type"] != c.(Object)["type"] {
			i++
		}
		if i == len(all) {
			all = append(all, Object{})
		}
		merge(all[i].(Object), c.(Object))
	}
	status["conditions"] = all
}

func (a *API) create(path string, body []byte) (int, Object) {
	var o Object
	if err := json.Unmarshal(body, &o); err != nil {
		return failure(400, "BadRequest", err.Error(), nil)
	}
	name, _ := Sub(o, "metadata")["name"].(string)
	if !subdomain.MatchString(name) {
		return failure(422, "Invalid", "metadata.name: "+name, nil)
	}
	at := path + "/" + name
	if a.objects[at] != nil {
		return failure(409, "AlreadyExists", at, nil)
	}
	a.put(at, o)
	return 201, o
}

// subdomain matches a valid object name.
var subdomain = regexp.MustCompile(`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`)

// Budget is the server's reply if a disruption budget forbids an eviction.
const Budget = "Cannot evict pod as it would violate the pod's disruption budget."

func (a *API) evict(at string) (int, Object) {
	if a.Evict != nil {
		if code, message := a.Evict(at[strings.LastIndex(at, "/")+1:]); code != 0 {
			details := Object{"retryAfterSeconds": 10}
			if message == Budget {
				details["causes"] = []any{Object{"reason": "DisruptionBudget", "message": message}}
			}
			return failure(code, map[int]string{429: "TooManyRequests", 500: "InternalError"}[code], message, details)
		}
	}
	return a.end(at)
}

// end deletes a pod or marks it as terminating.
func (a *API) end(at string) (int, Object) {
	o := a.objects[at]
	if o == nil || !strings.Contains(at, "/pods/") || a.End == nil || a.End(o) {
		return a.remove(at)
	}
	if meta := Sub(o, "metadata"); meta["deletionTimestamp"] == nil {
		meta["deletionTimestamp"] = "2026-11-21T12:00:00Z"
		a.put(at, o)
	}
	return 200, o
}

func (a *API) remove(at string) (int, Object) {
	delete(a.objects, at)
	a.tell()
	return 200, Object{"kind": "Status", "apiVersion": "v1", "status": "Success"}
}

func failure(code int, reason, message string, details Object) (int, Object) {
	return code, Object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message, "details": details}
}

func isList(path string) bool {
	return strings.HasSuffix(path, "/nodes") || strings.HasSuffix(path, "/pods") || strings.HasSuffix(path, "/leases") ||
		strings.HasSuffix(path, "/resourceslices") || strings.HasSuffix(path, "/devicetaintrules")
}

func (a *API) list(path, selector string) Object {
	kind := path[strings.LastIndex(path, "/"):]
	key, value, _ := strings.Cut(selector, "=")
	items := []any{}
	for at, o := range a.objects {
		if !strings.Contains(at, kind+"/") {
			continue
		}
		node, _, _ := strings.Cut(value, ",")
		if key == "spec.nodeName" && Sub(o, "spec")["nodeName"] != node || key == "metadata.name" && Sub(o, "metadata")["name"] != value {
			continue
		}
		items = append(items, o)
	}
	names := map[string]string{"/nodes": "NodeList", "/pods": "PodList", "/leases": "LeaseList", "/resourceslices": "ResourceSliceList", "/devicetaintrules": "DeviceTaintRuleList"}
	version := "v1"
	switch kind {
	case "/leases":
		version = "coordination.k8s.io/v1"
	case "/resourceslices":
		version = "resource.k8s.io/v1"
	}
	return Object{"kind": names[kind], "apiVersion": version, "metadata": Object{"resourceVersion": strconv.Itoa(a.version)}, "items": items}
}

// watch sends the current state of one node after each change. It keeps no history.
func (a *API) watch(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("sendInitialEvents") != "" {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(422)
		_, refused := failure(422, "Invalid", "sendInitialEvents is forbidden", nil)
		json.NewEncoder(w).Encode(refused)
		return
	}
	_, name, _ := strings.Cut(r.URL.Query().Get("fieldSelector"), "=")
	w.Header().Set("Content-Type", "application/json")
	w.(http.Flusher).Flush()
	last := r.URL.Query().Get("resourceVersion")
	for {
		a.mu.Lock()
		o, changed := clone(a.objects["v1/nodes/"+name]), a.changed
		a.mu.Unlock()
		if v, _ := Sub(o, "metadata")["resourceVersion"].(string); o != nil && v != last {
			last = v
			if json.NewEncoder(w).Encode(Object{"type": "MODIFIED", "object": o}) != nil {
				return
			}
			w.(http.Flusher).Flush()
		}
		select {
		case <-r.Context().Done():
			return
		case <-changed:
		}
	}
}
