package leaseservice

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/host"
	"dcm/internal/leases/lease"
	"dcm/internal/linux/caller"
	"dcm/internal/linux/systemd"
)

const wrongScope = "dcm-lease-1000-4f1c09aa.scope"

// mover is a PID 1 that moves processes in a tree of files.
type mover struct {
	t    *testing.T
	h    *host.Host
	main map[uint32]string // process → the service whose main process it is
	gone []string          // units that are not there any more
	late string            // the processes that get into the scope when its start is over
	did  []string
}

func (m *mover) procs() string {
	return m.h.Path("sys/fs/cgroup/dcm.slice", wrongScope, "cgroup.procs")
}

func (m *mover) Stop(_ context.Context, unit string) error {
	if text, _ := os.ReadFile(m.procs()); strings.TrimSpace(string(text)) != "" {
		m.t.Errorf("%s is stopped with %q in it", unit, text)
	}
	m.did = append(m.did, "stop "+unit)
	return nil
}

func (m *mover) Settle(context.Context, []string, func(systemd.Unit) bool) ([]systemd.Unit, error) {
	if m.late != "" {
		if err := os.WriteFile(m.procs(), []byte(m.late), 0o644); err != nil {
			m.t.Fatal(err)
		}
	}
	return nil, nil
}

func (m *mover) leave(pid uint32) {
	text, err := os.ReadFile(m.procs())
	if err != nil {
		m.t.Fatal(err)
	}
	left := slices.DeleteFunc(strings.Fields(string(text)), func(p string) bool { return p == fmt.Sprint(pid) })
	if err := os.WriteFile(m.procs(), []byte(strings.Join(left, "\n")), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

func (m *mover) Attach(_ context.Context, unit, below string, pid uint32) error {
	if slices.Contains(m.gone, unit) {
		return errors.New("no such unit")
	}
	if !strings.HasPrefix(unit, "user@") { // has Delegate=yes
		return errors.New("Process migration not available on non-delegated units.")
	}
	m.leave(pid)
	m.did = append(m.did, fmt.Sprintf("%d to %s%s", pid, unit, below))
	return nil
}

func (m *mover) ControlGroup(_ context.Context, unit string) (string, error) {
	return "/batch.slice/" + unit, nil
}

func (m *mover) ServiceOf(_ context.Context, pid uint32) (string, error) { return m.main[pid], nil }

func (m *mover) StartScope(_ context.Context, s systemd.Scope) error {
	m.leave(s.PID)
	m.did = append(m.did, fmt.Sprintf("%d to a scope in %s%v", s.PID, s.Slice, s.Extra))
	if !s.Open {
		m.t.Error("its devices are limited")
	}
	return nil
}

// Processes are "pid parent uid cgroup".
func TestUndo_MovesEveryProcessBackAndKillsNone(t *testing.T) {
	const from = "/user.slice/user-1000.slice/user@1000.service/app.slice/term.scope"
	self := os.Getpid()
	for _, tt := range []struct {
		name   string
		others []string
		in     []int
		caller bool // it is still there
		main   map[uint32]string
		gone   []string
		want   []string
		start  bool // of the scope is not over
	}{
		{name: "nothing", caller: true},
		{name: "the caller, while the scope starts", in: []int{self}, caller: true, want: []string{fmt.Sprintf("%d to user@1000.service/app.slice/term.scope", self)}, start: true},
		{name: "the caller", in: []int{self}, caller: true, want: []string{fmt.Sprintf("%d to user@1000.service/app.slice/term.scope", self)}},
		{name: "the caller, whose unit is gone", in: []int{self}, caller: true, gone: []string{"user@1000.service"}, want: []string{fmt.Sprintf("%d to a scope in user-1000.slice[]", self)}},
		{name: "another process with its number", others: []string{fmt.Sprintf("%d 50 0", self), "50 1 0 /backup.slice/backup.service"}, in: []int{self}, want: []string{fmt.Sprintf("%d to a scope in backup.slice[{TasksMax 77}]", self)}},
		{name: "the main process of a service", others: []string{fmt.Sprintf("%d 1 0", self)}, in: []int{self}, main: map[uint32]string{uint32(self): "cron.service"}, want: []string{fmt.Sprintf("%d to a scope in batch.slice[]", self)}},
		{name: "a process of no unit", others: []string{fmt.Sprintf("%d 1 0", self)}, in: []int{self}, want: []string{fmt.Sprintf("%d to a scope in system.slice[]", self)}},
		{name: "with children", others: []string{fmt.Sprintf("%d 50 0", self), "50 1 0 /system.slice/backup.service", fmt.Sprintf("900001 %d 0", self)}, in: []int{self, 900001},
			want: []string{fmt.Sprintf("%d to a scope in system.slice[]", self), "900001 to a scope in system.slice[]"}},
		{name: "an orphan of the caller's", others: []string{"900001 1 1000"}, in: []int{900001}, want: []string{"900001 to user@1000.service/app.slice/term.scope"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := &host.Host{Root: t.TempDir()}
			put := func(path, text string) {
				t.Helper()
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			process := func(pid, parent, uid int, cgroup string) {
				dir := h.Path("proc", strconv.Itoa(pid))
				put(dir+"/status", fmt.Sprintf("PPid:\t%d\nUid:\t%d\t%[2]d\t%[2]d\t%[2]d\n", parent, uid))
				put(dir+"/cgroup", "0::"+cgroup+"\n")
			}
			process(self, 77, 1000, "/dcm.slice/"+wrongScope)
			for _, o := range tt.others {
				pid, parent, uid, cgroup := 0, 0, 0, "/dcm.slice/"+wrongScope
				if n, err := fmt.Sscan(o, &pid, &parent, &uid, &cgroup); n < 3 {
					t.Fatal(err)
				}
				process(pid, parent, uid, cgroup)
			}
			p, err := caller.Open("/proc", self, uint32(os.Getuid()))
			if err != nil {
				t.Fatal(err)
			}
			p.UID = 1000
			if !tt.caller {
				p.Close() // a pidfd that says nothing is that of no process that is there
			} else {
				defer p.Close()
			}
			pids := make([]string, len(tt.in))
			for i, pid := range tt.in {
				pids[i] = strconv.Itoa(pid)
			}
			put(h.Path("sys/fs/cgroup/backup.slice/backup.service/pids.max"), "77\n")
			pid1 := &mover{t: t, h: h, main: tt.main, gone: tt.gone}
			put(pid1.procs(), "")
			if pid1.late = strings.Join(pids, "\n"); !tt.start {
				put(pid1.procs(), pid1.late)
			}
			m := &move{host: h, processes: processes{h}, log: slog.New(slog.NewTextHandler(t.Output(), nil)), pid1: moveUnits{pid1, pid1, pid1, pid1, pid1}, from: from, caller: lease.Caller{UID: 1000, PID: self, Process: p}}
			if err := m.Undo(t.Context(), wrongScope); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(append(tt.want, "stop "+wrongScope), pid1.did); diff != "" {
				t.Errorf("done (-want +got):\n%s", diff)
			}
		})
	}
}
