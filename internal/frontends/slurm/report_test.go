package slurm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const record = "NodeName=gpu1 Arch=x86_64 CoresPerSocket=1 AvailableFeatures=%[1]s ActiveFeatures=%[2]s Gres=(null) NodeAddr=gpu1 OS=Linux 6.12 ActiveFeatures=fake State=%[3]s ThreadsPerCore=1 Comment=x State=y%[4]s\n"

func TestParseNode(t *testing.T) {
	got := ParseNode(fmt.Sprintf(record, "a,b", "a", "DOWN+DRAIN", " Reason=Failed to set node feature(s): 'b' [x] [root@2026-11-21T20:00:00]"))
	want := Node{Available: []string{"a", "b"}, Active: []string{"a"}, State: "DOWN+DRAIN", Reason: "Failed to set node feature(s): 'b' [x]"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if !got.HelperFailed() {
		t.Error("HelperFailed: got false, want true")
	}
	got = ParseNode(fmt.Sprintf(record, "(null)", "(null)", "IDLE", ""))
	if d := cmp.Diff(Node{State: "IDLE"}, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if got := ParseNode("NodeName=x Reason=a\x1b[2Jb"); got.Reason != `a\x1b[2Jb` {
		t.Errorf("reason: got %q", got.Reason)
	}
}

func TestHas_IgnoresOtherFeatures(t *testing.T) {
	n := Node{Active: []string{"ib", "cpx"}}
	ours := map[string]string{"cpx": "cpx", "spx": "spx"}
	if !n.Has([]string{"cpx"}, ours) || n.Has([]string{"spx"}, ours) || n.Has([]string{"cpx", "spx"}, ours) {
		t.Error("Has: wrong result")
	}
}

// slurmctld answers for one node and records the calls.
type slurmctld struct {
	active, reason string
	gres           string // "" for none
	registered     string // GRES after an update, when slurmd has registered; "" if it does not
	state          string // "IDLE+DRAIN" unless set
	late           int    // number of queries until the node has slurmd's reason
	invalid        int    // number of queries after the report until slurmd has registered again
	broken         error
	updates        []string
}

func (s *slurmctld) run(_ context.Context, args ...string) (string, error) {
	if s.broken != nil {
		return "", s.broken
	}
	if args[0] != "--oneliner" {
		s.updates = append(s.updates, strings.Join(args, " "))
		if _, reason, ok := strings.Cut(s.updates[len(s.updates)-1], "Reason="); ok && s.registered != "" {
			s.reason, s.gres = reason, s.registered
		}
		return "", nil
	}
	reason := ""
	if s.late--; s.late < 0 && s.reason != "" {
		reason = " Reason=" + s.reason + " [root@now]"
	}
	state := "IDLE+DRAIN"
	if s.state != "" {
		state = s.state
	}
	if len(s.updates) > 0 {
		if s.invalid--; s.invalid >= 0 {
			state = "DOWN+DRAIN+INVALID_REG"
		}
	}
	text := fmt.Sprintf(record, "cpx,spx,mixed", s.active, state, reason)
	if s.gres != "" {
		text = strings.Replace(text, "Gres=(null)", "Gres="+s.gres, 1)
	}
	return text, nil
}

func TestReport(t *testing.T) {
	ours := map[string]string{"cpx": "cpx", "spx": "spx", "mixed": "mixed"}
	const update = "update NodeName=gpu1 "
	for _, test := range []struct {
		name   string
		ctld   slurmctld
		active []string
		failed string
		want   []string
	}{
		{"nothing new", slurmctld{active: "ib,cpx"}, []string{"cpx"}, "", nil},
		{"another profile", slurmctld{active: "cpx"}, []string{"mixed", "spx"}, "", []string{update + "ActiveFeatures=mixed,spx", "reload"}},
		{"no feature", slurmctld{active: "cpx"}, nil, "", []string{update + "State=DRAIN Reason=dcm: the GPUs match no feature"}},
		{"no feature, already drained for it", slurmctld{active: "cpx", reason: "dcm: the GPUs match no feature"}, nil, "", nil},
		{"no feature, drained by an administrator", slurmctld{active: "cpx", reason: "fan 3 broken, ticket 4711"}, nil, "", nil},
		{"no feature, and a note of an administrator", slurmctld{active: "cpx", state: "DOWN", reason: "fan 3 broken"}, nil, "",
			[]string{update + "State=DRAIN Reason=fan 3 broken; dcm: the GPUs match no feature"}},
		{"a feature again", slurmctld{active: "cpx", reason: "dcm: the GPUs match no feature"}, []string{"cpx"}, "", []string{update + "State=RESUME"}},
		{"another feature again", slurmctld{active: "cpx", reason: "dcm: the GPUs match no feature", invalid: 1}, []string{"spx"}, "",
			[]string{update + "ActiveFeatures=spx", "reload", update + "State=RESUME"}},
		{"a feature again, drained by an administrator", slurmctld{active: "cpx", reason: "fan 3 broken"}, []string{"cpx"}, "", nil},
		{"a feature again after a failed change", slurmctld{active: "cpx", reason: "dcm: cannot change to spx: why; the GPUs match no feature"}, []string{"cpx"}, "", nil},
		{"a failure", slurmctld{active: "spx", reason: "Failed to set node feature(s): 'spx'", late: 1, invalid: 1}, []string{"cpx"}, "cannot change to spx: why",
			[]string{update + "ActiveFeatures=cpx", "reload", update + "State=DRAIN Reason=dcm: cannot change to spx: why"}},
		{"a failure that was not undone", slurmctld{active: "spx", reason: "Failed to set node feature(s): 'spx'"}, nil, "cannot change to spx: why",
			[]string{update + "State=DRAIN Reason=dcm: cannot change to spx: why; the GPUs match no feature"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctld := test.ctld
			c := Controller{NodeName: "gpu1", Run: ctld.run}
			err := c.Report(t.Context(), Report{Features: ours, Active: test.active, Failed: test.failed, Log: func(string) {},
				Reload: func(context.Context) error { ctld.updates = append(ctld.updates, "reload"); return nil }})
			if ctld.invalid > 0 {
				t.Error("Report returned before the node can be resumed")
			}
			if d := cmp.Diff(test.want, ctld.updates); d != "" || err != nil {
				t.Errorf("%v (-want +got)\n%s", err, d)
			}
		})
	}
}

func TestReport_ControllerDown(t *testing.T) {
	broken := errors.New("scontrol: Unable to contact slurm controller")
	ctld := slurmctld{broken: broken}
	err := Controller{NodeName: "gpu1", Run: ctld.run}.Report(t.Context(), Report{Active: []string{"a"}})
	if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "cannot read the record of node gpu1 from slurmctld: ") {
		t.Errorf("got %v", err)
	}
}
