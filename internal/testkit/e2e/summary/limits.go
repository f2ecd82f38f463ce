package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// freeInotify is the least number of free inotify instances with which the tests run: those of four containers.
const freeInotify = 40

// freeMemory is the least free memory in MiB: that of four containers and the compiler.
const freeMemory = 3000

// hostLimits returns what of this host is short, a line each, and the load. A test that fails for one of these reasons
// would otherwise look like a defect.
func hostLimits() string {
	var b strings.Builder
	load, _, _ := strings.Cut(firstLine("/proc/loadavg"), " ")
	fmt.Fprintf(&b, "load: %s\n", load)
	if most, err := strconv.Atoi(firstLine("/proc/sys/fs/inotify/max_user_instances")); err == nil {
		if free := most - inotifyInstances("/proc"); free < freeInotify {
			fmt.Fprintf(&b, "short of inotify instances: %d of %d are free for this user; see sysctl fs.inotify.max_user_instances\n", free, most)
		}
	}
	if free := memoryAvailable("/proc/meminfo"); free > 0 && free < freeMemory {
		fmt.Fprintf(&b, "short of memory: %d MiB are free\n", free)
	}
	return b.String()
}

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
