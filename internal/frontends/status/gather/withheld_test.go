package gather

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/frontends/status"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

type sighted []gpu.Device

func (s sighted) Devices(context.Context) ([]gpu.Device, error) {
	return append([]gpu.Device{}, s...), nil
}

// TestDevices_HiddenFromProcess checks that the account's JSON contains all data that a plan needs.
func TestDevices_HiddenFromProcess(t *testing.T) {
	gpus, err := partition.ParseNode("h100-8")
	if err != nil {
		t.Fatal(err)
	}
	full := gpu.Device{GPU: gpus[0], Model: "H100", UUID: "GPU-1", ExclusiveNodes: []string{"/dev/nvidia0"}}
	full.MIG = &partition.MIG{Instances: []partition.Instance{
		{Profile: "3g.40gb", Start: 4}, {Profile: "3g.40gb", Start: 0, Compute: []string{"1c.3g.40gb", "2c.3g.40gb"}},
	}}
	full.MIGPending, full.ModeResetsGPU, full.GeometryBlocked, full.ModeBlocked = true, true, "not now", "no reset"
	off := gpu.Device{GPU: gpus[1], Model: "H100", ExclusiveNodes: []string{"/dev/nvidia1"}}
	alone := gpu.Device{GPU: partition.GPU{Address: gpus[2].Address, Vendor: gpus[2].Vendor}, SkipReason: "no library"}
	text, err := json.Marshal(status.Account{GPUs: statusGPUs([]gpu.Device{full, off, alone})})
	if err != nil {
		t.Fatal(err)
	}
	var account status.Account
	if err := json.Unmarshal(text, &account); err != nil {
		t.Fatal(err)
	}
	kept := sighted{}
	for _, d := range []gpu.Device{full, off, alone} {
		d.MIG, d.MIGPending, d.ModeResetsGPU, d.GeometryBlocked, d.ModeBlocked, d.Profiles, d.ExclusiveNodes, d.UUID = nil, false, false, "", "", nil, nil, ""
		d.SkipReason, d.AccessDenied = "cannot read it: no permission", true
		kept = append(kept, d)
	}
	got, err := Devices(t.Context(), kept, func(context.Context) (status.Account, error) { return account, nil })
	if err != nil {
		t.Fatal(err)
	}
	full.AccessDenied, off.AccessDenied, alone.AccessDenied = true, true, true
	if d := cmp.Diff([]gpu.Device{full, off, alone}, got); d != "" {
		t.Errorf("devices (-want +got):\n%s", d)
	}
}

func statusGPUs(devices []gpu.Device) []status.GPU { return gpus(devices, partition.Layout{}) }

func TestDevices_DaemonErrors(t *testing.T) {
	kept := sighted{{GPU: partition.GPU{Address: "0000:41:00.0"}, SkipReason: "cannot read 0000:41:00.0: no permission", AccessDenied: true}}
	for name, tt := range map[string]struct {
		account status.Account
		err     error
		want    string
	}{
		"no daemon":                  {err: errors.New("no such file"), want: "no permission; the daemon, which may have access, does not answer: no such file"},
		"not in the account":         {want: "does not know it"},
		"account of another version": {account: status.Account{GPUs: []status.GPU{{Address: "0000:41:00.0"}}}, want: "has no MIG instances"},
		"cannot be parsed":           {account: status.Account{GPUs: []status.GPU{{Address: "0000:41:00.0", Slots: &status.Placements{Laid: "3g@x"}}}}, want: "is not valid"},
	} {
		if _, err := Devices(t.Context(), kept, func(context.Context) (status.Account, error) { return tt.account, tt.err }); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
	open := sighted{{SkipReason: "not bound"}}
	if _, err := Devices(t.Context(), open, nil); err != nil {
		t.Errorf("the daemon was called although no GPU is hidden: %v", err)
	}
}

type partly struct {
	devices []gpu.Device
	err     error
}

func (p partly) Devices(context.Context) ([]gpu.Device, error) {
	return append([]gpu.Device{}, p.devices...), p.err
}

// An exclusive reservation hides the KFD's nodes even from a shell of root, but not the modes.
func TestDevices_HiddenPartitionsOfAMD(t *testing.T) {
	d := gpu.Device{GPU: partition.Typical(0x74a1, 1)[0], AccessDenied: true}
	d.Hive = 0
	d.Vendor, d.Compute = partition.AMD, partition.CPX
	d.SkipReason = "the device cgroup hides it"
	other := errors.New("cannot read 0000:41:00.0: no answer")
	node := partly{[]gpu.Device{d}, errors.Join(fmt.Errorf("cannot read %s: %w", d.Address, gpu.ErrAccessDenied), other)}
	account := status.Account{
		GPUs:  []status.GPU{{Address: string(d.Address), Hive: "00000000000000d1"}},
		Parts: []status.Part{{GPU: string(d.Address), Index: 1, RenderNode: "/dev/dri/renderD129", RenderMinor: 129}, {GPU: "0000:ff:00.0"}},
	}
	got, err := Devices(t.Context(), node, func(context.Context) (status.Account, error) { return account, nil })
	if !errors.Is(err, other) || errors.Is(err, gpu.ErrAccessDenied) {
		t.Errorf("error: got %v, want only the one about the other GPU", err)
	}
	want := d
	want.SkipReason, want.RenderNodes, want.Parts = "", []string{"/dev/dri/renderD129"}, []gpu.Part{{Index: 1, Minor: 129}}
	want.Hive = 0xd1
	want.SharedNode, want.ExclusiveNodes = "/dev/kfd", []string{"/dev/kfd", "/dev/dri/renderD129"}
	if diff := cmp.Diff([]gpu.Device{want}, got); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	if _, err := Devices(t.Context(), node, func(context.Context) (status.Account, error) { return account, errors.New("no daemon") }); !errors.Is(err, gpu.ErrAccessDenied) {
		t.Errorf("error without the daemon: got %v, want that the GPU is hidden", err)
	}
}
