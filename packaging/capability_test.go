package packaging_test

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Each capability that is left has a test that fails without it: the two that
// show other processes' files in internal/testkit/e2e, the one for modules here. A new
// one needs a test of its own.
func TestUnits_Capabilities(t *testing.T) {
	line := regexp.MustCompile(`(?m)^CapabilityBoundingSet=(.*)$`)
	want := map[string][]string{
		"dcm.service":        {"CAP_DAC_READ_SEARCH", "CAP_SYS_PTRACE"},
		"dcm-apply.service":  {"CAP_DAC_READ_SEARCH", "CAP_SYS_MODULE", "CAP_SYS_PTRACE"},
		"dcm-change.service": {"CAP_DAC_READ_SEARCH", "CAP_SYS_PTRACE"},
		"dcm-make@.service":  {"CAP_DAC_READ_SEARCH", "CAP_SYS_PTRACE"},
		"dcm-clean@.service": nil,
		"dcm-gate.service":   nil,
	}
	for unit, capabilities := range want {
		found := line.FindAllStringSubmatch(read(t, "../systemd/"+unit), -1)
		if len(found) != 1 {
			t.Fatalf("%s: CapabilityBoundingSet= is there %d times", unit, len(found))
		}
		got := strings.Fields(found[0][1])
		slices.Sort(got)
		if !slices.Equal(got, capabilities) {
			t.Errorf("%s has %q, want %q", unit, got, capabilities)
		}
	}
}

// noModule is the name of a module that there is none of.
const noModule = "dcm_no_such_module"

// Loading and unloading begin with the same question (capable(CAP_SYS_MODULE) in
// kernel/module/main.c), so asking to unload what is not loaded is enough, and
// harmless.
func TestModules_NeedCapability(t *testing.T) {
	if os.Getenv("DCM_UNLOAD") != "" {
		t.Log("answer: " + unload().Error())
		return
	}
	switch err := unload(); {
	case errors.Is(err, syscall.ENOSYS):
		t.Skip("this kernel has no loadable modules")
	case errors.Is(err, syscall.EPERM):
		t.Skip("this test has no CAP_SYS_MODULE itself")
	case !errors.Is(err, syscall.ENOENT):
		t.Fatalf("unloading a module that is not there: %v, want %v", err, syscall.ENOENT)
	}
	need(t, "setpriv")
	cmd := exec.Command("setpriv", "--bounding-set=-sys_module", os.Args[0], "-test.run=^TestModules_NeedCapability$", "-test.v")
	cmd.Env = append(os.Environ(), "DCM_UNLOAD=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "answer: "+syscall.EPERM.Error()) {
		t.Errorf("without the capability: %v\n%s", err, out)
	}
}

func unload() error {
	name, err := unix.BytePtrFromString(noModule)
	if err != nil {
		return err
	}
	_, _, errno := unix.Syscall(unix.SYS_DELETE_MODULE, uintptr(unsafe.Pointer(name)), unix.O_NONBLOCK, 0)
	return errno
}
