package nvidia

import (
	"slices"
	"testing"

	"dcm/internal/gpu"
	"dcm/internal/gpu/nvml/standin"
)

func TestMeasure_MIGDevice(t *testing.T) {
	b := newBench(t, "h100-8")
	if err := b.make(map[string]int{"3g.40gb": 1, "1c.4g.40gb": 2}, 1); err != nil {
		t.Fatal(err)
	}
	const some = 5 << 30
	var busy standin.Instance
	b.change(func(s *standin.State) {
		for _, i := range s.GPUs[1].Instances {
			if len(i.Compute) == 2 {
				busy = i
			}
		}
		s.GPUs[1].Processes = []standin.Process{{PID: 4711, Memory: some, GI: uint32(busy.ID), CI: uint32(busy.Compute[1].ID)}}
		s.GPUs[2].Processes = []standin.Process{{PID: 4712, Memory: some, GI: 0xffffffff, CI: 0xffffffff}}
	})
	devices := b.gpus()
	b.calls()
	uses, err := b.node.Measure(t.Context(), devices[1:3])
	if err != nil || len(uses) != 4 {
		t.Fatalf("%+v, %v", uses, err)
	}
	used, pids := 0, 0
	for _, u := range uses[:3] {
		at := slices.IndexFunc(devices[1].Parts, func(p gpu.Part) bool { return p.Index == u.Index })
		if at < 0 {
			t.Fatalf("no partition has the index of %+v", u)
		}
		part := devices[1].Parts[at]
		if u.NoBytesReason != "" || part.Profile == "3g.40gb" && (u.Bytes >= some || len(u.Processes) > 0) {
			t.Errorf("%s: %+v", part.Profile, u)
		}
		if u.Bytes >= some {
			used++
		}
		pids += len(u.Processes)
	}
	if used < 1 || pids != 1 { // another MIG device has its memory in the same GPU instance
		t.Errorf("%d partitions with memory and %d processes: %+v", used, pids, uses)
	}
	if whole := uses[3]; whole.Bytes != some || // without what the driver reserves
		len(whole.Processes) != 1 || whole.Processes[0] != (gpu.Process{PID: 4712, Bytes: some}) {
		t.Errorf("with MIG off: %+v", whole)
	}
}

func TestMeasure_LostGPU(t *testing.T) {
	b := newBench(t, "h100-8")
	devices := b.gpus()
	b.change(func(s *standin.State) { s.GPUs[0].Lost = true })
	uses, err := b.node.Measure(t.Context(), devices[:2])
	if err != nil || len(uses) != 2 {
		t.Fatalf("%+v, %v", uses, err)
	}
	if uses[0].NoBytesReason == "" || uses[0].NoBusyReason == "" || uses[1].NoBytesReason != "" {
		t.Errorf("%+v", uses)
	}
}

// A driver without version 2 of the function counts what it reserves as used.
func TestMeasure_FirstVersionOfMemory(t *testing.T) {
	b := newBench(t, "h100-8")
	b.change(func(s *standin.State) { s.Knobs = []string{"fail nvmlDeviceGetMemoryInfo_v2 3"} })
	devices := b.gpus()
	uses, err := b.node.Measure(t.Context(), devices[:1])
	if err != nil || len(uses) != 1 || uses[0].Bytes != 480<<20 || devices[0].Bytes != 80<<30 {
		t.Errorf("%+v of %d bytes, %v", uses, devices[0].Bytes, err)
	}
}

func TestDescribe_Serial(t *testing.T) {
	b := newBench(t, "h100-8")
	if g := b.gpus()[1]; g.Serial != "1650000000001" || g.Source["serial"] == "" {
		t.Errorf("serial number %q from %q", g.Serial, g.Source["serial"])
	}
	b.change(func(s *standin.State) { s.Knobs = []string{"no-serial"} })
	if g := b.gpus()[1]; g.Serial != "" || g.SkipReason != "" {
		t.Errorf("without one: %q, %s", g.Serial, g.SkipReason)
	}
}
