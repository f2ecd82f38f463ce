// Command dcm-nvml is the only program of dcm that loads NVIDIA's libnvidia-ml. It takes
// one request, prints one answer and exits; both are JSON, see package
// dcm/internal/gpu/nvml. Whoever runs it gives it a deadline and kills it then.
//
//	dcm-nvml [--sys DIR] [--dev DIR] [--proc DIR] [REQUEST]
//
// Without REQUEST it reads one from stdin. DIR replaces /sys, /dev or /proc in tests;
// without the driver in sysfs nothing is loaded. Exit status: 0 done, 1 the answer
// is an error, 64 usage.
//
// Before it loads anything it runs itself again without the rights that it does not
// need, see package dcm/internal/worker/sandbox: to look it has no capability, to change what the
// driver asks for, and in neither case programs and the network. A look cannot make,
// change or remove a device node, although the library tries. Only a look that precedes a
// change may make nodes that are missing, as on a host that was just booted.
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

// again comes first when the program runs itself again. After it come the user whom it
// runs for, the roots, whether device nodes may be made, and the request.
const again = "--confined"

// confineSelf runs the program again with less rights, and returns only with what
// is wrong.
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

// makesNodes reports whether the library may make device nodes. The driver's module does
// not make them; its library does, or a service of NVIDIA's. A change makes those of the
// new instances.
func makesNodes(r nvml.Request, at binding.Roots) bool {
	return !r.Looks() || r.Nodes && at.MissingNode(len(r.GPUs)) != ""
}

// rights are what the library needs. A look has no capability: the nodes of the
// capabilities are readable for root. To make a node takes CAP_MKNOD, and CAP_CHOWN where
// the driver's parameters name an owner (NVreg_DeviceFileUID, NVreg_DeviceFileGID): without
// it the library removes the node again. A change needs CAP_SYS_ADMIN, which the driver
// requires, and the sockets of nvidia-persistenced and nvidia-fabricmanager, which close a
// GPU for the time of its reset when the library asks them.
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

// confined answers the request of a user.
func confined(user string, at binding.Roots, makes, data string) nvml.Reply {
	request, err := nvml.ParseRequest([]byte(data))
	if err != nil {
		return nvml.Reply{Error: nvml.AsFailure(err)}
	}
	uid, err := strconv.Atoi(user)
	if err == nil {
		err = rights(request, makes == strconv.FormatBool(true)).InstallSeccomp()
	}
	if err != nil {
		return nvml.Reply{Error: &nvml.Failure{Kind: nvml.Unconfined, Text: err.Error()}}
	}
	return binding.Serve(request, sandbox.TrustOf(uid), at)
}

func reply(of func() nvml.Reply) int {
	return serve.Print("dcm-nvml", of, func(r nvml.Reply) bool { return r.Error != nil })
}
