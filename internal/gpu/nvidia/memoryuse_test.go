package nvidia

import (
	"os"
	"path/filepath"
	"testing"

	"dcm/internal/gpu"
	"dcm/internal/gpu/nvml"
)

// A process that the driver lists and that does not exist holds nothing. A GPU with a process of unknown
// memory is not judged.
func TestMemoryUse(t *testing.T) {
	const gib = uint64(1) << 30
	own, gone, zombie := 7, 8, 9
	proc := t.TempDir()
	for pid, state := range map[string]string{"7": "S", "9": "Z"} {
		if err := os.MkdirAll(filepath.Join(proc, pid), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(proc, pid, "stat"), []byte(pid+" (python) "+state+" 1"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name      string
		used      uint64
		processes []nvml.Process
		known     bool
		held      uint64
	}{
		{"nothing", gib / 2, nil, true, 0},
		{"no process", 40 * gib, nil, true, 40 * gib},
		{"a process", 40 * gib, []nvml.Process{{PID: own, Memory: 40 * gib}}, true, 0},
		{"in both lists", 60 * gib, []nvml.Process{{PID: own, Memory: 20 * gib}, {PID: own, Memory: 20 * gib, Graphics: true}}, true, 40 * gib},
		{"a process that does not exist", 40 * gib, []nvml.Process{{PID: gone, Memory: 40 * gib}}, true, 40 * gib},
		{"a zombie", 40 * gib, []nvml.Process{{PID: zombie, Memory: 40 * gib}}, true, 40 * gib},
		{"a process of unknown memory", 40 * gib, []nvml.Process{{PID: own}}, false, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := memoryReader{host: host{gpu.Roots{Proc: proc}}}
			m, known := r.of(nvml.GPU{Address: "0000:1b:00.0", Usage: &nvml.Usage{MemoryTotal: 80 * gib, MemoryUsed: test.used}, Processes: test.processes})
			if known != test.known || known && m.Held() != test.held {
				t.Errorf("%+v, %t: held %d, want %d, %t", m, known, m.Held(), test.held, test.known)
			}
		})
	}
	if _, known := (&memoryReader{}).of(nvml.GPU{}); known {
		t.Error("a GPU without its memory is known")
	}
}

// The page cache can be in memory that is a NUMA node of the kernel.
func TestMemoryUse_NUMANode(t *testing.T) {
	for status, known := range map[string]bool{"online": false, "offline": true} {
		proc := t.TempDir()
		dir := filepath.Join(proc, "driver/nvidia/gpus/0009:01:00.0")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "numa_status"), []byte("Node: 2\nStatus: "+status+"\nSize: 1700000000\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		r := memoryReader{host: host{gpu.Roots{Proc: proc}}}
		if m, got := r.of(nvml.GPU{Address: "0009:01:00.0", Usage: &nvml.Usage{MemoryTotal: 96 << 30, MemoryUsed: 40 << 30}}); got != known {
			t.Errorf("%s: got %+v, %t", status, m, got)
		}
	}
}
