package vm_test

import "fmt"

// podmanHolder is a service whose container gets the partitions reserved for the service.
const podmanHolder = `[Service]
Type=notify
NotifyAccess=all
Delegate=yes
KillMode=mixed
ExecStart=podman run --name=holder --replace --rm --detach --sdnotify=conmon --cgroups=split --network=none --device=deviceconfig.org/partition=reservation-holder localhost/box sleep infinity
ExecStopPost=podman rm --force --ignore holder
`

// containers: the container of the holder can open a partition that is reserved exclusively. No other
// container can, with any devices and capabilities.
func containers(m machine) {
	m.run(`mkdir -p /root/box/bin /root/box/usr && cp /bin/busybox /root/box/bin && ln -s busybox /root/box/bin/sh && ln -s busybox /root/box/bin/sleep && tar -C /root/box -c . | podman import --quiet - localhost/box`)
	m.put("/etc/systemd/system/holder.service", podmanHolder)
	m.reserveForHolder()
	m.use("cpx-nps4")
	m.run("systemctl start holder")
	held := m.run("readlink -f /dev/dcm/holder/render0")
	free := m.run(`ls /dev/dri/renderD* | grep --invert-match --line-regexp --max-count=1 "$1"`, held)
	m.run("chmod 666 " + free) // for the user namespace
	open := func(node string) string { return fmt.Sprintf("sh -c 'exec 3<>%s'", node) }
	m.run("podman exec holder " + open(held))
	for _, run := range []string{
		"podman run --rm --network=none --device=%s localhost/box ",
		"podman run --rm --network=none --privileged --volume=%s:%[1]s localhost/box ",
		"podman run --rm --network=none --uidmap=0:100000:65536 --device=%s:%[1]s:rwm localhost/box ",
		"systemd-nspawn --quiet --register=no --directory=/root/box --bind=%s --property=DeviceAllow='%[1]s rwm' --capability=all /bin/",
	} {
		if r := m.try(fmt.Sprintf(run, held) + open(held)); r.Code == 0 {
			m.t.Errorf("%s opened a partition that is reserved exclusively", run)
		}
		m.run(fmt.Sprintf(run, free) + open(free))
	}
}
