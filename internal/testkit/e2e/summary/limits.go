package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// freeInotify is the least number of free inotify instances with which the tests run: those of four containers.
const freeInotify = 40

// freeMemory is the least free memory in MiB: that of four containers and the compiler.
const freeMemory = 3000

// hostLimits returns the load, the free inotify instances and the available memory of this host, and a line for each
// that is short. A test that fails for one of these reasons would otherwise look like a defect.
func hostLimits() string {
	var b, short strings.Builder
	load, _, _ := strings.Cut(firstLine("/proc/loadavg"), " ")
	fmt.Fprintf(&b, "host: load %s", load)
	if most, err := strconv.Atoi(firstLine("/proc/sys/fs/inotify/max_user_instances")); err == nil {
		free := most - inotifyInstances("/proc")
		fmt.Fprintf(&b, ", %d of %d inotify instances free for this user", free, most)
		if free < freeInotify {
			fmt.Fprintf(&short, "short of inotify instances: the tests need %d; see sysctl fs.inotify.max_user_instances\n", freeInotify)
		}
	}
	if free := memoryAvailable("/proc/meminfo"); free > 0 {
		fmt.Fprintf(&b, ", %d MiB of memory available", free)
		if free < freeMemory {
			fmt.Fprintf(&short, "short of memory: the tests need %d MiB\n", freeMemory)
		}
	}
	return b.String() + "\n" + short.String()
}

// outOfLimit is in the output of a test that used up something of the host.
var outOfLimit = regexp.MustCompile(`max_user_instances|too many open files|cannot allocate memory|no space left on device`)

func firstLine(file string) string {
	text, _ := os.ReadFile(file) // a missing file is an empty line
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

// inotifyInstances returns the number of inotify instances of this user's processes that can be read.
func inotifyInstances(proc string) (n int) {
	all, _ := filepath.Glob(filepath.Join(proc, "[0-9]*", "fd", "*")) // the pattern is valid
	for _, fd := range all {
		target, err := os.Readlink(fd)
		var st unix.Stat_t
		if err == nil && target == "anon_inode:inotify" && unix.Stat(filepath.Dir(filepath.Dir(fd)), &st) == nil && int(st.Uid) == os.Getuid() {
			n++
		}
	}
	return n
}

// memoryAvailable returns the MemAvailable of /proc/meminfo in MiB, or 0.
func memoryAvailable(file string) int {
	f, err := os.Open(file)
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var kib int
		if n, _ := fmt.Sscanf(lines.Text(), "MemAvailable: %d kB", &kib); n == 1 {
			return kib >> 10
		}
	}
	return 0
}
