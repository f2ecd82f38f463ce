package vm_test

import (
	"fmt"
	"strings"
)

// holdsInstance opens a GPU or an instance of one, and the driver's control node.
const holdsInstance = `[Service]
ExecStart=sh -c 'exec 3</dev/dcm/%p-%i/render0 4</dev/nvidiactl; sleep infinity & wait'
`

// thirdMIG divides GPU 3.
const thirdMIG = `[profiles.same]
mig = "off"
[profiles.third]
[[profiles.third.group]]
mig = { "1g.10gb" = 7 }
gpus = [3]
[[profiles.third.group]]
mig = "off"
count = "rest"
`

// someStay reserves an instance of GPU 3 for each of three services. Two of the instances are in both
// profiles. The other GPUs have a worker each.
const someStay = `[[reservation]]
unit = "kept@a"
partitions = 1
mode = "3g.40gb"
gpus = [3]
[[reservation]]
unit = "kept@b"
partitions = 1
mode = "2g.20gb"
gpus = [3]
[[reservation]]
unit = "moved@a"
partitions = 1
gpus = [3]
[profiles.before]
[[profiles.before.group]]
mig = { "3g.40gb" = 1, "2g.20gb" = 1, "1g.10gb" = 2 }
gpus = [3]
[[profiles.before.group]]
mig = { "3g.40gb" = 2 }
count = "rest"
[profiles.after]
[[profiles.after.group]]
mig = { "3g.40gb" = 1, "2g.20gb" = 1, "1g.20gb" = 1 }
gpus = [3]
[[profiles.after.group]]
mig = { "3g.40gb" = 2 }
count = "rest"
`

// instancesOf is the number of GPU instances of one GPU.
const instancesOf = `ls -d /proc/driver/nvidia/capabilities/gpu%d/mig/gi* 2>/dev/null | wc -l`

// singleNVIDIA: a change of GPU 3 restarts the services of this GPU alone, and of a MIG GPU only those whose
// instance is destroyed.
func singleNVIDIA(m machine) {
	m.run("systemctl disable --now " + clients + "; systemctl reset-failed")
	for _, name := range []string{"worker", "kept", "moved"} {
		m.put("/etc/systemd/system/"+name+"@.service", holdsInstance)
	}
	m.put("/etc/dcm/dcm.toml", eachGPU("same", none)+thirdMIG)
	m.run("systemctl daemon-reload; systemctl restart dcm; systemctl start " + strings.Join(workers(none), " "))
	m.keeps("third", "worker@3", workers(3))
	m.expect(instances, "7")
	m.keeps("same", "worker@3", workers(3))
	m.expect(instances, "0")

	m.run("systemctl stop " + strings.Join(workers(none), " "))
	m.put("/etc/dcm/dcm.toml", eachGPU("before", 3)+someStay)
	m.run("systemctl reload dcm; dcm apply; systemctl start kept@a kept@b moved@a " + strings.Join(workers(3), " "))
	m.expect(fmt.Sprintf(instancesOf, 3), "4")
	kept := append(workers(3), "kept@a", "kept@b")
	links := m.run("ls -l /dev/dcm/kept-a /dev/dcm/kept-b /dev/dcm/worker-*")
	m.keeps("after", "moved@a", kept)
	m.expect(fmt.Sprintf(instancesOf, 3), "3")
	m.expect("ls -l /dev/dcm/kept-a /dev/dcm/kept-b /dev/dcm/worker-*", links)
	m.keeps("before", "moved@a", kept)
	m.expect(fmt.Sprintf(instancesOf, 3), "4")
	m.expect("ls -l /dev/dcm/kept-a /dev/dcm/kept-b /dev/dcm/worker-*", links)
	m.expect("systemctl --failed --quiet --plain --no-legend", "")
}
