package configtest

// EveryKey is a file that sets each key, none to its default.
const EveryKey = `version = 1
profile = "mixed"

[clients]
units   = ["amd-metrics-exporter", "gpuagent.service", "vllm@", "vllm@7b", "feed.socket", "app.v2"]
require = true
discover = "include"

[apply]
on-failure     = "keep"
reload-driver  = false
at-load        = true
device-timeout = "1m30s"
reboot         = "once"
unit-of-change = "gpu"
settle-time    = "1m"

[daemon]
drift = "report"

[gpu]
backend = "amdsmi"
library = "/opt/rocm/lib/libamd_smi.so"
count = 8

[leases]
max-per-user = 8
max-slots-per-user = 16
idle-time = "10m"
dwell-time = "30s"
held-memory = "refuse"
clean = "required"
devices = ["/dev/infiniband/uverbs*", "/dev/fuse"]
default-time = "90m"
max-time = "24h"
shares = 4

[leases.groups.course]
max-per-user = 2
max-total = 16
[leases.groups.1005]
max-time = "30m"
devices = ["/dev/net/tun"]

[guard]
observers = ["amd-metrics-exporter"]

[metrics]
textfile = "/var/lib/node_exporter"

[agent]
enabled = true

[[reservation]]
unit = "vllm@7b"
partitions = 2
place = "link"
vendor = "amd"
mode = "CPX"
exclusive = true
gpus = [1]
devices = ["/dev/infiniband/uverbs*"]
[[reservation]]
unit = "notebook@"
partitions = 1
share = 3
[[reservation]]
unit = "llm@"
make = "2g.20gb"
gpus = [2]

[[reservation]]
user = "alice"
gpus = [0]
when = "Mon..Fri 08:00..18:00"

[[client]]
unit = "vllm@3"
gpus = [3, "0000:0c:00.0"]
[[client]]
unit = "dcgm-exporter"
observer = true

[[budget]]
units = "vllm@*"
max-down = 2

[profiles.whole]
compute = "CPX"
memory  = "NPS4"
memory-allocation = "all"
isolation = true

[profiles.mixed]
memory = "NPS1"
skip   = ["0000:C5:00.0", 7]
[[profiles.mixed.group]]
compute = "CPX"
count   = 2
[[profiles.mixed.group]]
compute = "DPX"
gpus    = ["0c:00.0"]
memory-allocation = "capping"
isolation = false
[[profiles.mixed.group]]
compute = "SPX"
count   = "rest"

[[client]]
unit = "llama-swap"
opens = "on-demand"
`

// Operators is the configuration that users of AMD's GPU operator have.
const Operators = `{"gpu-config-profiles": {
  "cpx-profile": {"skippedGPUs": {"ids": []}, "profiles": [{"computePartition": "CPX", "memoryPartition": "NPS4", "numGPUsAssigned": 8}]},
  "spx-profile": {"skippedGPUs": {"ids": []}, "profiles": [{"computePartition": "SPX", "memoryPartition": "NPS1", "numGPUsAssigned": 8}]}},
 "gpuClientSystemdServices": {"names": ["amd-metrics-exporter", "gpuagent"]}}
`

// Fleet is in the form of the operator's own default, which leaves counts open, with
// profiles for other nodes than this one.
const Fleet = `{"gpu-config-profiles": {
  "all": {"profiles": [{"computePartition": "QPX", "memoryPartition": "NPS8"}]},
  "mixed": {"profiles": [{"computePartition": "CPX", "memoryPartition": "NPS1", "numGPUsAssigned": 2}, {"computePartition": "SPX", "memoryPartition": "NPS1"}]},
  "first": {"skippedGPUs": {"ids": [3]}, "profiles": [{"computePartition": "CPX", "memoryPartition": "NPS1", "numGPUsAssigned": 0}, {"computePartition": "SPX", "memoryPartition": "NPS1", "numGPUsAssigned": 4}]},
  "odd": {"profiles": [{"computePartition": "FPX", "memoryPartition": "NPS1"},
    {"computePartition": "SPX", "memoryPartition": "NPS16"}]},
  "none": {"profiles": [{"computePartition": "SPX", "memoryPartition": "NPS1"}]},
  "sixteen": {"profiles": [{"computePartition": "SPX", "memoryPartition": "NPS1", "numGPUsAssigned": 16}]}
}}`
