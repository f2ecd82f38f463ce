package runstate

import (
	"fmt"
	"testing"
)

func TestHolder_AllDevicesInOneText(t *testing.T) {
	h := Holder{PID: 7, Command: "vllm", Unit: "vllm.service", Devices: []string{"/dev/kfd"}}
	for i := range 64 {
		h.Devices = append(h.Devices, fmt.Sprintf("/dev/dri/renderD%d", 128+i))
	}
	const want = "GPUs are in use: vllm (pid 7, vllm.service) has /dev/kfd, /dev/dri/renderD128, /dev/dri/renderD129 and 62 more devices open"
	if got := InUse([]Holder{h}).Text; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	h.Devices = h.Devices[:4]
	const few = "GPUs are in use: vllm (pid 7, vllm.service) has /dev/kfd, /dev/dri/renderD128, /dev/dri/renderD129, /dev/dri/renderD130 open"
	if got := InUse([]Holder{h}).Text; got != few {
		t.Errorf("%s\nwant %s", got, few)
	}
}
