package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"dcm/internal/gpu"
	"dcm/internal/gpu/nvml"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/sysfs"
	"dcm/internal/sanitize"
	"dcm/internal/worker/call"
)

// Source is where a record is taken.
type Source struct {
	Roots   gpu.Roots
	Node    *gpu.Node
	NVML    []string                                           // dcm-nvml with its first arguments; empty: it is not called
	Library string                                             // of NVIDIA; "": the usual places
	SMI     func(ctx context.Context, trace bool) (SMI, error) // calls AMD's library; nil: it is not called
	Trace   bool                                               // record the system calls that the sandbox of a library refuses
	Program string                                             // version of dcm
	Kernel  string                                             // release
	Host    string                                             // name of the host, which is removed from all texts
}

const (
	fileTimeout = 10 * time.Second // of one read
	callTimeout = time.Minute      // of a call of a library
)

// Take reads a node. It writes nothing: of the files that show the compute mode that was last
// selected, it has the current selection only. What cannot be read is recorded with its
// error.
func Take(ctx context.Context, s Source, now time.Time) Record {
	r := Record{Version: Version, Program: s.Program, Kernel: s.Kernel, Arch: runtime.GOARCH, Date: now.UTC().Format(time.DateOnly), GPUs: []partition.GPU{}, Files: []File{}}
	devices, err := s.Node.Devices(ctx)
	if err != nil {
		r.Errors = append(r.Errors, err.Error())
	}
	r.GPUs = append(r.GPUs, gpu.Partitionable(devices)...)
	for _, pattern := range patterns() {
		r.Files = append(r.Files, s.read(ctx, pattern)...)
	}
	for _, d := range devices {
		for _, pattern := range attributes() {
			r.Files = append(r.Files, s.read(ctx, path.Join(functions, string(d.Address), pattern))...)
		}
	}
	slices.SortFunc(r.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	s.libraries(ctx, &r)
	s.nvml(ctx, devices, &r)
	s.smi(ctx, devices, &r)
	scrub(&r, s.Host)
	return r
}

// libraries records the version of each library that is used, and how long it takes.
func (s Source) libraries(ctx context.Context, r *Record) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	began := time.Now()
	for _, l := range s.Node.Libraries(ctx) {
		r.Calls = append(r.Calls, Call{l.Name, l.State, time.Since(began).Microseconds()})
		began = time.Now()
	}
}

// nvml records what NVIDIA's library answers.
func (s Source) nvml(ctx context.Context, devices []gpu.Device, r *Record) {
	request := nvml.Request{Do: nvml.Look, Library: s.Library, Trace: s.Trace}
	for _, d := range devices {
		if d.Vendor == partition.NVIDIA && d.Driver == "nvidia" && len(request.GPUs) < nvml.MaxGPUs {
			request.GPUs = append(request.GPUs, d.Address)
		}
	}
	if len(request.GPUs) == 0 || len(s.NVML) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	began := time.Now()
	reply, err := look(ctx, s.NVML, request)
	one := Call{"nvml look", "", time.Since(began).Microseconds()}
	if err != nil {
		one.State = err.Error()
	} else {
		one.State, r.NVML = reply.NVML, &reply
	}
	r.Calls = append(r.Calls, one)
}

// smi records what AMD's library answers.
func (s Source) smi(ctx context.Context, devices []gpu.Device, r *Record) {
	if s.SMI == nil || !slices.ContainsFunc(devices, func(d gpu.Device) bool { return d.Vendor == partition.AMD && d.Driver == "amdgpu" }) {
		return
	}
	began := time.Now()
	reply, err := s.SMI(ctx, s.Trace)
	one := Call{"amdsmi inventory", reply.Library, time.Since(began).Microseconds()}
	if err != nil {
		one.State = err.Error()
	} else {
		r.SMI = &reply
	}
	r.Calls = append(r.Calls, one)
}

func look(ctx context.Context, program []string, request nvml.Request) (nvml.Reply, error) {
	text, err := json.Marshal(request)
	if err != nil {
		return nvml.Reply{}, err
	}
	out, err := call.Once(ctx, program[0], text, call.Way{Args: program[1:], Attr: call.Group()})
	reply, bad := nvml.ParseReply(out)
	if bad != nil {
		return reply, errors.Join(err, bad)
	}
	return reply, nil
}

// read returns the files that a pattern matches. The pattern "dir/" is the names in a
// directory. A file that does not exist is left out.
func (s Source) read(ctx context.Context, pattern string) []File {
	dir := strings.HasSuffix(pattern, "/")
	found, _ := filepath.Glob(s.path(pattern)) // the patterns are valid
	var out []File
	for _, at := range found {
		f := File{Path: s.name(at)}
		began := time.Now()
		err := s.fill(ctx, at, dir, &f)
		f.Took = time.Since(began).Microseconds()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		f.Error = errorName(err)
		out = append(out, f)
	}
	return out
}

// fill reads one file.
func (s Source) fill(ctx context.Context, at string, dir bool, f *File) error {
	ctx, cancel := context.WithTimeout(ctx, fileTimeout)
	defer cancel()
	if dir {
		names, err := sysfs.Within(ctx, func() ([]string, error) { return sysfs.Names(at) })
		slices.Sort(names)
		for _, n := range names {
			f.Names = append(f.Names, sanitize.Text(n))
		}
		return err
	}
	info, err := os.Lstat(at)
	switch {
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		f.Link, err = sysfs.Link(at)
		return err
	case strings.HasPrefix(f.Path, "/dev/"):
		f.Mode = fmt.Sprintf("%04o", info.Mode().Perm())
		if st, ok := info.Sys().(*syscall.Stat_t); ok && info.Mode()&fs.ModeCharDevice != 0 {
			f.Device = fmt.Sprintf("%d:%d", unix.Major(uint64(st.Rdev)), unix.Minor(uint64(st.Rdev)))
		}
		return nil
	case info.IsDir():
		return nil
	}
	f.Mode = fmt.Sprintf("%04o", info.Mode().Perm())
	switch {
	case info.Mode().Perm()&0o444 == 0: // it is only written to
		return nil
	case strings.HasSuffix(f.Path, "_metrics"):
		f.Text, err = sysfs.Within(ctx, func() (string, error) { return tableFormat(at) })
		return err
	}
	f.Text, err = sysfs.Within(ctx, func() (string, error) { return sysfs.Read(at) })
	return err
}

// tableFormat returns the format and size of a table of metrics, "1.8, 3872 bytes"
// (kgd_pp_interface.h: struct metrics_table_header).
func tableFormat(at string) (string, error) {
	table, err := sysfs.Bytes(at)
	if err != nil || len(table) < 4 {
		return "", err
	}
	return fmt.Sprintf("%d.%d, %d bytes", table[2], table[3], len(table)), nil
}

// path returns where a file of the host is.
func (s Source) path(name string) string {
	for prefix, root := range map[string]string{"/sys/": s.Roots.Sys, "/proc/": s.Roots.Proc, "/dev/": s.Roots.Dev} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			return root + "/" + rest
		}
	}
	return name
}

// name is the inverse of path.
func (s Source) name(at string) string {
	for prefix, root := range map[string]string{"/sys/": s.Roots.Sys, "/proc/": s.Roots.Proc, "/dev/": s.Roots.Dev} {
		if rest, ok := strings.CutPrefix(at, root+"/"); ok {
			return sanitize.Text(prefix + strings.TrimSuffix(rest, "/"))
		}
	}
	return sanitize.Text(at)
}

// errorName returns the name of an errno, or the text of another error.
func errorName(err error) string {
	var errno unix.Errno
	switch {
	case err == nil:
		return ""
	case errors.As(err, &errno):
		return unix.ErrnoName(errno)
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	return err.Error()
}
