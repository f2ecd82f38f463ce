package packaging_test

import (
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// played stands for flux-core, of which the mappers use the base class only, and for dcm.
const played = `
import subprocess, sys, types
for name in ("flux", "flux.sdexec", "flux.sdexec.map"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["flux.sdexec.map"].HwlocMapper = object
def run(command, **_):
    failed = command[-1] == "99"
    return types.SimpleNamespace(returncode=int(failed), stdout="/dev/dri/renderD129\n/dev/kfd\n", stderr="IDS: no such numbers\n")
subprocess.run = run
sys.path.insert(0, "flux")
sys.dont_write_bytecode = True
import dcm_flux
for mapper in (dcm_flux.GPUMapper(), dcm_flux.PartitionMapper()):
    print(mapper.map_gpus("1"), mapper.map_gpus(""))
    try:
        mapper.map_gpus("99")
    except OSError as error:
        print(error)
`

// TestFluxMapper: the mappers return DeviceAllow= in the form of flux-core's own mapper.
func TestFluxMapper(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip(err)
	}
	out, err := exec.Command(python, "-c", played).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const one = "{'DeviceAllow': '/dev/dri/renderD129 rw,/dev/kfd rw'} {}\nIDS: no such numbers\n"
	if d := cmp.Diff(one+one, string(out)); d != "" {
		t.Errorf("properties (-want +got):\n%s", d)
	}
}
