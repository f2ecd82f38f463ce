// Command dcm-smi is the only program of dcm that loads libamd_smi. It executes one request,
// prints one reply and exits. Both are JSON, see package dcm/internal/gpu/amdsmi. The caller
// kills it after a timeout.
//
//	dcm-smi [--private] [REQUEST]
//
// Without REQUEST it reads one from stdin. With --private it has its own mount namespace, and
// mounts an empty /tmp and /dev/shm for the files of the library. Exit status: 0 success, 1
// the reply is an error, 64 usage.
//
// Before it loads the library it executes itself again with fewer privileges, see package
// dcm/internal/worker/sandbox.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"dcm/internal/gpu/amdsmi"
	"dcm/internal/worker/sandbox"
	"dcm/internal/worker/serve"
)

func main() {
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	if len(args) == 3 && args[0] == again {
		return reply(func() amdsmi.Reply { return confined(args[1], args[2]) })
	}
	private := len(args) > 0 && args[0] == "--private"
	if private {
		args = args[1:]
	}
	if len(args) > 1 {
		fmt.Fprintln(os.Stderr, "usage: dcm-smi [--private] [REQUEST]")
		return 64
	}
	err := confineSelf(args, private)
	return reply(func() amdsmi.Reply { return amdsmi.Reply{Error: err} })
}

// again is the first argument of the second execution. The user and the request follow it.
const again = "--confined"

// confineSelf executes the program again with fewer privileges. It returns only after an
// error.
func confineSelf(args []string, private bool) *amdsmi.Failure {
	data, err := serve.Request(args)
	if err != nil {
		return &amdsmi.Failure{Kind: amdsmi.BadRequest, Text: err.Error()}
	}
	request, err := amdsmi.ParseRequest(data)
	if err != nil {
		return &amdsmi.Failure{Kind: amdsmi.BadRequest, Text: err.Error()}
	}
	if err = isolate(private); err == nil {
		err = rights(request).Reexec([]string{again, strconv.Itoa(os.Getuid()), string(data)})
	}
	return &amdsmi.Failure{Kind: amdsmi.Unconfined, Text: err.Error()}
}

// rights returns the privileges that the library needs: the devices for a read, root's files
// for a set.
func rights(r amdsmi.Request) sandbox.Rights {
	return sandbox.Rights{Unprivileged: r.Looks(), Devices: []string{"/dev/kfd", "/dev/dri/*"}, Programs: true, Files: true}
}

// confined executes the request as a user.
func confined(user, data string) amdsmi.Reply {
	request, err := amdsmi.ParseRequest([]byte(data))
	if err != nil {
		return amdsmi.Reply{Error: &amdsmi.Failure{Kind: amdsmi.BadRequest, Text: err.Error()}}
	}
	uid, err := strconv.Atoi(user)
	var trace *sandbox.Trace
	switch {
	case err != nil:
	case request.Trace:
		trace, err = rights(request).InstallTracedSeccomp()
	default:
		err = rights(request).InstallSeccomp()
	}
	if err != nil {
		return amdsmi.Reply{Error: &amdsmi.Failure{Kind: amdsmi.Unconfined, Text: err.Error()}}
	}
	reply := amdsmi.Serve(request, sandbox.TrustOf(uid))
	reply.Refused = trace.Refused()
	return reply
}

func reply(of func() amdsmi.Reply) int {
	return serve.Print("dcm-smi", of, func(r amdsmi.Reply) bool { return r.Error != nil })
}

// isolate hides the directories where the library leaves files.
func isolate(private bool) error {
	if !private {
		return nil
	}
	runtime.LockOSThread()
	return errors.Join(hide("/tmp"), hide("/dev/shm"))
}

// hide mounts an empty directory over dir if it exists. The library shares mutexes in
// /dev/shm with its other users. If dcm-smi is killed, they could stay locked.
func hide(dir string) error {
	err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "size=4m,mode=1777")
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("cannot mount a private %s: %w", dir, err)
	}
	return nil
}
