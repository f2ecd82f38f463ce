#!/bin/bash
# Guess:     a device without the attribute that a CEL selector of a claim names does not match, and the
#            next device is tried.
# Behaviour: it is an error, which ends the allocation of the whole claim. It does so if such a device
#            comes before the one that matches. In the other order the claim gets its device. Devices of
#            other drivers count, too.
# Versions seen: k8s.io/dynamic-resource-allocation v0.37.2, which the scheduler uses
# Met by:    users of a node whose driver publishes whole GPUs next to partitions. A claim for a profile
#            works until a whole GPU is published before the partitions.
# Fails:     if the output is not that at the end of this script, which was seen with this version.
set -euo pipefail
dir=$(mktemp -d)
# shellcheck source=findings/lib.bash
. "$(dirname "$0")/lib.bash"

go_module k8s.io/dynamic-resource-allocation/structured@v0.37.2
cat >"$dir/main.go" <<'END'
package main

import (
	"context"
	"fmt"
	"strings"

	core "k8s.io/api/core/v1"
	resource "k8s.io/api/resource/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

type classes struct{}

func (classes) List() ([]*resource.DeviceClass, error) { return nil, nil }

func (classes) Get(name string) (*resource.DeviceClass, error) {
	return &resource.DeviceClass{ObjectMeta: meta.ObjectMeta{Name: name}}, nil
}

const (
	plain   = "device.attributes['gpu.example.com'].profile == '1g.10gb'"
	guarded = "device.attributes['gpu.example.com'].?profile.orValue('') == '1g.10gb'"
)

func main() {
	profile := "1g.10gb"
	whole := resource.Device{Name: "gpu-0"}
	part := resource.Device{Name: "gpu-1-mig-0", Attributes: map[resource.QualifiedName]resource.DeviceAttribute{
		"profile": {StringValue: &profile},
	}}
	allocate("partition first", plain, slice("gpu.example.com", part, whole))
	allocate("whole GPU first", plain, slice("gpu.example.com", whole, part))
	allocate("other driver first", plain, slice("net.example.com", whole), slice("gpu.example.com", part))
	allocate("guarded", guarded, slice("gpu.example.com", whole, part))
}

func slice(driver string, devices ...resource.Device) *resource.ResourceSlice {
	node := "node"
	pool := resource.ResourcePool{Name: node, ResourceSliceCount: 1}
	return &resource.ResourceSlice{
		ObjectMeta: meta.ObjectMeta{Name: driver},
		Spec:       resource.ResourceSliceSpec{Driver: driver, NodeName: &node, Devices: devices, Pool: pool},
	}
}

func allocate(name, expression string, slices ...*resource.ResourceSlice) {
	request := resource.DeviceRequest{Name: "one", Exactly: &resource.ExactDeviceRequest{
		DeviceClassName: "any", AllocationMode: resource.DeviceAllocationModeExactCount, Count: 1,
		Selectors: []resource.DeviceSelector{{CEL: &resource.CELDeviceSelector{Expression: expression}}},
	}}
	claim := &resource.ResourceClaim{ObjectMeta: meta.ObjectMeta{Name: "claim"}}
	claim.Spec.Devices.Requests = []resource.DeviceRequest{request}
	ctx := context.Background()
	allocator, err := structured.NewAllocator(ctx, structured.Features{}, structured.AllocatedState{}, classes{},
		slices, cel.NewCache(10, cel.Features{}))
	if err != nil {
		panic(err)
	}
	node := &core.Node{ObjectMeta: meta.ObjectMeta{Name: "node"}}
	results, err := allocator.Allocate(ctx, node, []*resource.ResourceClaim{claim})
	if len(results) == 0 {
		reason, _, _ := strings.Cut(err.Error(), ". consider")
		fmt.Printf("%s: nothing, %s\n", name, reason)
		return
	}
	fmt.Printf("%s: %s\n", name, results[0].Devices.Results[0].Device)
}
END
expect <<'END' || exit 1
partition first: gpu-1-mig-0
whole GPU first: nothing, claim claim: selector #0 on device gpu.example.com/node/gpu-0: CEL runtime error: no such key: profile
other driver first: nothing, claim claim: selector #0 on device net.example.com/node/gpu-0: CEL runtime error: no such key: profile
guarded: gpu-1-mig-0
END
