// Command dcm-nvml is the only program of dcm that loads NVIDIA's libnvidia-ml. It takes
// one request, prints one answer and exits; both are JSON, see package
// dcm/internal/nvml. Whoever runs it gives it a deadline and kills it then.
//
//	dcm-nvml [--sys DIR] [REQUEST]
//
// Without REQUEST it reads one from stdin. DIR is where sysfs is, for tests; without the
// driver in it nothing is loaded. Exit status: 0 done, 1 the answer is an error, 64 usage.
//
// Before it loads anything it runs itself again without the rights that it does not
// need, see package dcm/internal/confine: to look it has no capability, to change what the
// driver asks for, and in neither case programs and the network.
package main

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"dcm/internal/answer"
	"dcm/internal/confine"
	"dcm/internal/nvml"
	"dcm/internal/nvml/binding"
)

func main() {
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	if len(args) == 4 && args[0] == again {
		return reply(func() nvml.Reply { return confined(args[1], args[2], args[3]) })
	}
	sys := "/sys"
	if len(args) >= 2 && args[0] == "--sys" {
		sys, args = args[1], args[2:]
	}
	if len(args) > 1 {
		fmt.Fprintln(os.Stderr, "usage: dcm-nvml [--sys DIR] [REQUEST]")
		return 64
	}
	err := confineSelf(args, sys)
	return reply(func() nvml.Reply { return nvml.Reply{Error: err} })
}

// again comes first when the program runs itself again; behind it are the user whom
// it runs for, where sysfs is, and the request.
const again = "--confined"

// confineSelf runs the program again with less rights, and returns only with what
// is wrong.
func confineSelf(args []string, sys string) *nvml.Failure {
	data, err := answer.Request(args)
	if err != nil {
		return &nvml.Failure{Kind: nvml.BadRequest, Text: err.Error()}
	}
	request, err := nvml.ParseRequest(data)
	if err != nil {
		return nvml.AsFailure(err)
	}
	err = rights(request).Again([]string{again, strconv.Itoa(os.Getuid()), sys, string(data)})
	return &nvml.Failure{Kind: nvml.Unconfined, Text: err.Error()}
}

// rights are what the library needs. The nodes that tell of instances are root's alone,
// so that a look is by root, but without a capability. A change needs CAP_SYS_ADMIN, as
// the driver asks for it, CAP_MKNOD where the nodes of instances are not there yet, and
// the sockets of nvidia-persistenced and nvidia-fabricmanager, which let go of a GPU for
// the time of its reset if the library asks them.
func rights(r nvml.Request) confine.Rights {
	if r.Looks() {
		return confine.Rights{}
	}
	return confine.Rights{Capabilities: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_MKNOD}, Sockets: true, Nodes: true}
}

// confined answers the request of a user.
func confined(user, sys, data string) nvml.Reply {
	request, err := nvml.ParseRequest([]byte(data))
	if err != nil {
		return nvml.Reply{Error: nvml.AsFailure(err)}
	}
	uid, err := strconv.Atoi(user)
	if err == nil {
		err = rights(request).Seal()
	}
	if err != nil {
		return nvml.Reply{Error: &nvml.Failure{Kind: nvml.Unconfined, Text: err.Error()}}
	}
	return binding.Serve(request, confine.TrustOf(uid), sys)
}

func reply(of func() nvml.Reply) int {
	return answer.Print("dcm-nvml", of, func(r nvml.Reply) bool { return r.Error != nil })
}
