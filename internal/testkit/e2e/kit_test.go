package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/gpu/record"
	"dcm/internal/testkit/e2e"
)

// withoutPackage runs the kit where neither systemd, the system bus nor the programs of the
// package exist.
const withoutPackage = `unshare --mount --propagation private sh -c '
for dir in /run/systemd /run/dbus /usr/libexec/dcm; do mount -t tmpfs tmpfs $dir; done
exec /root/kit/run.sh /root/result'`

// kitArchive builds the kit once for all nodes.
var kitArchive = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "dcm-kit-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	build := exec.Command("../../../packaging/kit.sh", runtime.GOARCH)
	build.Env = append(os.Environ(), "VERSION=1.2.3", "DIST="+dir)
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("cannot build the kit: %w\n%s", err, out)
	}
	return os.ReadFile(filepath.Join(dir, "dcm-hardware-kit-1.2.3-"+runtime.GOARCH+".tar.gz"))
})

// migKit runs the hardware kit on GPUs with MIG instances, and replays the record as the
// node of the next boot.
func migKit(m machine) {
	m.t.Helper()
	kit, err := kitArchive()
	if err != nil {
		m.t.Fatal(err)
	}
	m.put("/root/kit.tar.gz", string(kit))
	m.run("mkdir -p /root/kit /root/result && tar -C /root/kit --strip-components=1 -xzf /root/kit.tar.gz")
	m.chosen("mixed", of80())
	m.run("dcm verify")
	if got := m.run(withoutPackage); !strings.Contains(got, "The result is /root/result/") {
		m.t.Errorf("the kit printed %s", got)
	}
	m.run("cd /root/result && tar --strip-components=1 -xzf ./*.tar.gz && cmp nodes-before.txt nodes-after.txt && grep -q nvidia0 nodes-after.txt && grep -q 'on 8 GPUs' plan-all-1g.10gb.txt")
	if got := m.run("grep -rlE \"$(hostname)|gpuagent|amd-metrics-exporter\" /root/result --exclude=*.gz || :"); got != "" {
		m.t.Errorf("names are in %s", got)
	}
	var r record.Record
	if err := json.Unmarshal([]byte(m.run("cat /root/result/record.json")), &r); err != nil {
		m.t.Fatal(err)
	}
	if len(r.GPUs) != 8 || r.NVML == nil || len(r.NVML.GPUs) != 8 || len(r.NVML.GPUs[0].Instances) != 4 || len(r.NVML.GPUs[0].Profiles) == 0 {
		m.t.Fatalf("the record has %d GPUs, calls %+v, NVML %+v", len(r.GPUs), r.Calls, r.NVML)
	}
	before := m.run("dcm gpus --json")
	m.put("/etc/systemd/system/e2e-node.service.d/fresh.conf", "[Service]\nExecStartPre=rm -f "+e2e.MIGState+"\n")
	m.put(simulated, kindOf("/root/result/record.json"))
	m.reboot()
	m.run("dcm verify")
	if diff := cmp.Diff(before, m.run("dcm gpus --json")); diff != "" {
		m.t.Errorf("the replayed node has another account (-recorded +replayed):\n%s", diff)
	}
}
