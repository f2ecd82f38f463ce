// Command dcm-nvml is the only program of dcm that loads NVIDIA's libnvidia-ml. It executes
// one request, prints one reply and exits. Both are JSON, see package dcm/internal/gpu/nvml.
// The caller kills it after a timeout.
//
//	dcm-nvml [--sys DIR] [--dev DIR] [--proc DIR] [REQUEST]
//
// Without REQUEST it reads one from stdin. DIR replaces /sys, /dev or /proc in tests; without
// the driver in sysfs nothing is loaded. Exit status: 0 success, 1 the reply is an error, 64
// usage.
//
// Before it loads the library it executes itself again with fewer privileges, see package
// dcm/internal/worker/sandbox. A read has no capabilities, a change those that the driver
// requires; neither can execute programs or use the network. A read cannot create, change or
// remove a device node, although the library tries to. Only a read before a change may create
// missing nodes, for example after a boot.
package main

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"dcm/internal/gpu/nvml"
	"dcm/internal/gpu/nvml/binding"
	"dcm/internal/worker/sandbox"
	"dcm/internal/worker/serve"
)

func main() {
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	if len(args) == 7 && args[0] == again {
		return reply(func() nvml.Reply {
			return confined(args[1], binding.Roots{Sys: args[2], Dev: args[3], Proc: args[4]}, args[5], args[6])
		})
	}
	at := binding.Roots{Sys: "/sys", Dev: "/dev", Proc: "/proc"}
	for _, option := range []struct {
		name string
		to   *string
	}{{"--sys", &at.Sys}, {"--dev", &at.Dev}, {"--proc", &at.Proc}} {
		if len(args) >= 2 && args[0] == option.name {
			*option.to, args = args[1], args[2:]
		}
	}
	if len(args) > 1 {
		fmt.Fprintln(os.Stderr, "usage: dcm-nvml [--sys DIR] [--dev DIR] [--proc DIR] [REQUEST]")
		return 64
	}
	err := confineSelf(args, at)
	return reply(func() nvml.Reply { return nvml.Reply{Error: err} })
}

// again is the first argument of the second execution. The user, the roots, whether device
// nodes may be created, and the request follow it.
const again = "--confined"

// confineSelf executes the program again with fewer privileges. It returns only after an
// error.
func confineSelf(args []string, at binding.Roots) *nvml.Failure {
	data, err := serve.Request(args)
	if err != nil {
		return &nvml.Failure{Kind: nvml.BadRequest, Text: err.Error()}
	}
	request, err := nvml.ParseRequest(data)
	if err != nil {
		return nvml.AsFailure(err)
	}
	makes := makesNodes(request, at)
	err = rights(request, makes).Reexec([]string{again, strconv.Itoa(os.Getuid()), at.Sys, at.Dev, at.Proc, strconv.FormatBool(makes), string(data)})
	return &nvml.Failure{Kind: nvml.Unconfined, Text: err.Error()}
}

// makesNodes reports whether the library may create device nodes. The driver module does not
// create them; its library or a service of NVIDIA does. A change creates those of the new
// instances.
func makesNodes(r nvml.Request, at binding.Roots) bool {
	return !r.Looks() || r.Nodes && at.MissingNode(len(r.GPUs)) != ""
}

// rights returns the privileges that the library needs. A read has no capabilities, since
// root can read the capability nodes. Creating a node needs CAP_MKNOD, and CAP_CHOWN if the
// driver's parameters name an owner (NVreg_DeviceFileUID, NVreg_DeviceFileGID): otherwise
// the library removes the node again. A change needs CAP_SYS_ADMIN for the driver, and the
// sockets of nvidia-persistenced and nvidia-fabricmanager, which close a GPU during its
// reset.
func rights(r nvml.Request, makes bool) sandbox.Rights {
	var out sandbox.Rights
	if makes {
		out = sandbox.Rights{Capabilities: []uintptr{unix.CAP_MKNOD, unix.CAP_CHOWN}, Nodes: true}
	}
	if !r.Looks() {
		out.Capabilities, out.Sockets = append(out.Capabilities, unix.CAP_SYS_ADMIN), true
	}
	return out
}

// confined executes the request as a user.
func confined(user string, at binding.Roots, makes, data string) nvml.Reply {
	request, err := nvml.ParseRequest([]byte(data))
	if err != nil {
		return nvml.Reply{Error: nvml.AsFailure(err)}
	}
	uid, err := strconv.Atoi(user)
	var trace *sandbox.Trace
	may := rights(request, makes == strconv.FormatBool(true))
	switch {
	case err != nil:
	case request.Trace:
		trace, err = may.InstallTracedSeccomp()
	default:
		err = may.InstallSeccomp()
	}
	if err != nil {
		return nvml.Reply{Error: &nvml.Failure{Kind: nvml.Unconfined, Text: err.Error()}}
	}
	reply := binding.Serve(request, sandbox.TrustOf(uid), at)
	reply.Refused = trace.Refused()
	return reply
}

func reply(of func() nvml.Reply) int {
	return serve.Print("dcm-nvml", of, func(r nvml.Reply) bool { return r.Error != nil })
}
