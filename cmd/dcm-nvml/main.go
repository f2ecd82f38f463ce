// Command dcm-nvml is the only program of dcm that loads NVIDIA's libnvidia-ml. It takes
// one request, prints one answer and exits; both are JSON, see package
// dcm/internal/nvml. Whoever runs it gives it a deadline and kills it then.
//
//	dcm-nvml [--sys DIR] [--dev DIR] [REQUEST]
//
// Without REQUEST it reads one from stdin. DIR is where sysfs and the devices are, for
// tests; without the driver in sysfs nothing is loaded. Exit status: 0 done, 1 the answer
// is an error, 64 usage.
//
// Before it loads anything it runs itself again without the rights that it does not
// need, see package dcm/internal/confine: to look it has no capability, to change what the
// driver asks for, and in neither case programs and the network. Where nobody has made
// the nodes of the GPUs yet, as on a host that was just booted, a look may make them, too.
package main

import (
	"fmt"
	"os"
	"path/filepath"
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
	if len(args) == 6 && args[0] == again {
		return reply(func() nvml.Reply { return confined(args[1], place{args[2], args[3]}, args[4], args[5]) })
	}
	at := place{"/sys", "/dev"}
	for _, option := range []struct {
		name string
		to   *string
	}{{"--sys", &at.sys}, {"--dev", &at.dev}} {
		if len(args) >= 2 && args[0] == option.name {
			*option.to, args = args[1], args[2:]
		}
	}
	if len(args) > 1 {
		fmt.Fprintln(os.Stderr, "usage: dcm-nvml [--sys DIR] [--dev DIR] [REQUEST]")
		return 64
	}
	err := confineSelf(args, at)
	return reply(func() nvml.Reply { return nvml.Reply{Error: err} })
}

// place is where sysfs and the devices are.
type place struct{ sys, dev string }

// again comes first when the program runs itself again; behind it are the user whom
// it runs for, where sysfs and the devices are, whether there are nodes to be made, and
// the request.
const again = "--confined"

// confineSelf runs the program again with less rights, and returns only with what
// is wrong.
func confineSelf(args []string, at place) *nvml.Failure {
	data, err := answer.Request(args)
	if err != nil {
		return &nvml.Failure{Kind: nvml.BadRequest, Text: err.Error()}
	}
	request, err := nvml.ParseRequest(data)
	if err != nil {
		return nvml.AsFailure(err)
	}
	bare := at.bare(request)
	err = rights(request, bare).Again([]string{again, strconv.Itoa(os.Getuid()), at.sys, at.dev, strconv.FormatBool(bare), string(data)})
	return &nvml.Failure{Kind: nvml.Unconfined, Text: err.Error()}
}

// bare tells whether the nodes of the GPUs, or some of them, are not there. The driver's
// module does not make them; its library does, or a service of its own, whoever is first.
func (at place) bare(r nvml.Request) bool {
	if _, err := os.Stat(filepath.Join(at.dev, "nvidiactl")); err != nil {
		return true
	}
	found, _ := filepath.Glob(filepath.Join(at.dev, "nvidia[0-9]*")) // the pattern is in order
	return len(found) < len(r.GPUs)
}

// rights are what the library needs. The nodes that tell of instances are root's alone,
// so that a look is by root, but without a capability, unless there are nodes to be made
// and the caller may do so. A change needs CAP_SYS_ADMIN, as
// the driver asks for it, CAP_MKNOD where the nodes of instances are not there yet, and
// the sockets of nvidia-persistenced and nvidia-fabricmanager, which let go of a GPU for
// the time of its reset if the library asks them.
func rights(r nvml.Request, bare bool) confine.Rights {
	switch {
	case r.Looks() && bare:
		return confine.Rights{Capabilities: []uintptr{unix.CAP_MKNOD}, Nodes: true}
	case r.Looks():
		return confine.Rights{}
	}
	return confine.Rights{Capabilities: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_MKNOD}, Sockets: true, Nodes: true}
}

// confined answers the request of a user.
func confined(user string, at place, bare, data string) nvml.Reply {
	request, err := nvml.ParseRequest([]byte(data))
	if err != nil {
		return nvml.Reply{Error: nvml.AsFailure(err)}
	}
	uid, err := strconv.Atoi(user)
	if err == nil {
		err = rights(request, bare == strconv.FormatBool(true)).Seal()
	}
	if err != nil {
		return nvml.Reply{Error: &nvml.Failure{Kind: nvml.Unconfined, Text: err.Error()}}
	}
	return binding.Serve(request, confine.TrustOf(uid), at.sys, at.dev)
}

func reply(of func() nvml.Reply) int {
	return answer.Print("dcm-nvml", of, func(r nvml.Reply) bool { return r.Error != nil })
}
