package amdgpu

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dcm/internal/linux/sysfs"
)

// modprobe replaces the command by a shell script that runs in the fixture's directory. Its
// arguments are "-r amdgpu" or "amdgpu".
func (f *fixture) modprobe(script string) Option {
	return Modprobe("/bin/sh", "-c", "cd "+f.dir+`; echo "$*" >> calls; m=sys/module/amdgpu
unload() { rm -r $m; }
load() { mkdir -p $m; echo live > $m/initstate; }
fail() { echo "modprobe: FATAL: Module amdgpu $1." >&2; exit 1; }
case "$*" in
`+script+`
esac`, "modprobe")
}

func (f *fixture) calls() string {
	text, err := sysfs.Optional(f.path("calls"))
	f.must(err)
	return strings.ReplaceAll(text, "\n", "; ")
}

func TestReloadError(t *testing.T) {
	for _, test := range []struct {
		name, script string
		want         string // what is in the error, "" for none
		calls        string
		transient    bool
	}{
		{"well", "-r*) unload;; *) load;;", "", "-r amdgpu; amdgpu", false},
		{"in use", `-r*) fail "is in use";; *) load;;`,
			"cannot unload amdgpu; nothing was changed, and a requested memory mode stays pending: modprobe -r amdgpu: device or resource busy: modprobe: FATAL: Module amdgpu is in use.",
			"-r amdgpu", true},
		{"modprobe is killed", `-r*) kill -9 $$;; *) load;;`, "modprobe -r amdgpu: killed by a signal: signal: killed", "-r amdgpu", true},
		{"built in", `-r*) fail "is builtin";; *) load;;`, "exit status 1: modprobe: FATAL: Module amdgpu is builtin.", "-r amdgpu", false},
		{"unloaded, except for a module that it used", `-r*) unload; fail "x";; *) load;;`, "", "-r amdgpu; amdgpu", false},
		{"loaded at the second try", `-r*) unload;; *) if [ -e tried ]; then load; else touch tried; fail "has no firmware"; fi;;`,
			"", "-r amdgpu; amdgpu; amdgpu", false},
		{"never loaded", `-r*) unload;; *) fail "has no firmware";;`,
			"cannot load amdgpu, the driver is not loaded: modprobe amdgpu: exit status 1: modprobe: FATAL: Module amdgpu has no firmware. (twice)",
			"-r amdgpu; amdgpu; amdgpu", false},
		{"loaded with a complaint", `-r*) unload;; *) load; fail "is odd";;`, "amdgpu reported a failure when it was loaded", "-r amdgpu; amdgpu; amdgpu", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t)
			f.mi300x("0000:05:00.0", "card1")
			f.write("sys/module/amdgpu/initstate", "live\n")
			err := f.open(f.modprobe(test.script), BusyRetry(0, time.Millisecond)).Reload(patient(t))
			if got := f.calls(); got != test.calls {
				t.Errorf("calls %q, want %q", got, test.calls)
			}
			if test.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
			if IsTransient(err) != test.transient || Hint(err) == "" {
				t.Errorf("transient %v, hint %q", IsTransient(err), Hint(err))
			}
		})
	}
}

func TestReload_UnloadHangs(t *testing.T) {
	f := newFixture(t)
	f.mi300x("0000:05:00.0", "card1")
	f.write("sys/module/amdgpu/initstate", "live\n")
	f.hang("fifo")
	err := f.open(f.modprobe("-r*) read x < fifo;; *) load;;")).Reload(soon(t))
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "may be left unloaded") {
		t.Errorf("error %v, want one that says that the driver may be left unloaded", err)
	}
}

// The caller's deadline passes while the driver is unloaded.
func TestReload_ContextEnded(t *testing.T) {
	f := newFixture(t)
	f.mi300x("0000:05:00.0", "card1")
	f.write("sys/module/amdgpu/initstate", "live\n")
	f.must(unix.Mkfifo(f.path("fifo"), 0o644))
	ctx, cancel := context.WithCancel(patient(t))
	go func() {
		fd, err := unix.Open(f.path("fifo"), unix.O_WRONLY, 0) // waits for the script
		if err == nil {
			cancel()
			unix.Close(fd)
		}
	}()
	n := f.open(f.modprobe("-r*) unload;; *) if mkdir once 2>/dev/null; then read x < fifo; fi; load;;"))
	if err := n.Reload(ctx); err != nil {
		t.Error(err)
	}
	if !n.module.Loaded() {
		t.Errorf("the driver is not loaded; calls %s", f.calls())
	}
}

func TestLoad(t *testing.T) {
	f := newFixture(t)
	f.mi300x("0000:05:00.0", "card1")
	n := f.open(f.modprobe("*) load;;"))
	for range 2 {
		if err := n.all.Drivers().Load(patient(t)); err != nil {
			t.Fatal(err)
		}
	}
	if got := f.calls(); got != "amdgpu" {
		t.Errorf("calls %q, want one", got)
	}
}

func TestReload_NoModprobe(t *testing.T) {
	f := newFixture(t)
	f.write("sys/module/amdgpu/initstate", "live\n")
	start := time.Now()
	err := f.open(Modprobe(f.path("nowhere"))).Reload(patient(t))
	if err == nil || !strings.Contains(err.Error(), "no such file") || time.Since(start) > 10*time.Second {
		t.Errorf("error %v after %v", err, time.Since(start))
	}
}
