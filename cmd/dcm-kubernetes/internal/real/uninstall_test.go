package real_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"dcm/cmd/dcm-kubernetes/internal/cluster"
	"dcm/cmd/dcm-kubernetes/internal/sequence"
	"dcm/cmd/dcm-kubernetes/internal/vendor"
)

// uninstalled runs the commands of the sections about the agent's life and the uninstallation. The nodes have
// nothing left of the agent, and the cluster only the objects from before.
func (k *kubelets) uninstalled(t *testing.T, bin string, before, nodesOf []string) {
	for _, command := range walk(t, "Labels, conditions and events") {
		if said := k.shell(bin, command); strings.Count(said, "\nn") != len(nodesOf) || strings.Count(said, time.Now().UTC().Format("2006-01-")) != len(nodesOf) {
			t.Errorf("times of the agents: %s", said)
		}
	}
	commands := walk(t, "Uninstall")
	if len(commands) != 4 {
		t.Fatalf("commands of the README: %q", commands)
	}
	k.shell(bin, commands[0])
	k.until("rest", nodesOf, func(o object) bool { return strings.HasPrefix(condition(o), "Unknown NoProfile: ") })
	k.shell(bin, commands[1])
	k.shell(bin, commands[2])
	k.awaitInstalled(t, before)
	for _, name := range nodesOf {
		o := k.do(http.MethodGet, nodes+"/"+name, nil)
		text := fmt.Sprint(sub(o, "metadata", "labels"), sub(o, "metadata", "annotations"), sub(o, "spec"))
		if name == "n1" {
			text += condition(o)
		}
		for _, word := range []string{"deviceconfig.org/a", "deviceconfig.org/last", "deviceconfig.org/operation", "config.state", "profile-state", "unschedulable", "GPUProfile"} {
			if strings.Contains(text, word) {
				t.Errorf("%s has %s: %s", name, word, text)
			}
		}
	}

	// An agent that ended in the middle of an operation, on a node of either vendor.
	for _, v := range vendor.All {
		op, _ := json.Marshal(sequence.Operation{ID: "x", Phase: sequence.Applying})
		k.do(http.MethodPatch, nodes+"/n1", object{"metadata": object{"annotations": object{cluster.Operation: string(op)}},
			"spec": object{"unschedulable": true, "taints": []any{object{"key": v.Taint.Key, "value": v.Taint.Value, "effect": "NoSchedule"}}}})
		k.shell(bin, commands[3])
		o := k.do(http.MethodGet, nodes+"/n1", nil)
		if spec := sub(o, "spec"); phase(o) != "" || spec["unschedulable"] != nil || strings.Contains(fmt.Sprint(spec["taints"]), v.Taint.Key) {
			t.Errorf("%s: restored by hand: %v", v.Name, spec)
		}
	}
}
