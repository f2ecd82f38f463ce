package apply

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// sliced is a node with NVIDIA GPUs in memory. Its driver reports the placements of instances only
// if MIG is on.
type sliced struct {
	gpus    []partition.GPU
	offered []partition.InstanceProfile
	made    []string
	fail    func(partition.Step) error // called in the middle of a step
}

func newSliced(n int, now string) *sliced {
	board, _ := partition.LookupBoard("H100-80GB")
	s := &sliced{gpus: partition.TypicalMIG(board, n), offered: board.Profiles}
	for i := range s.gpus {
		s.gpus[i].MIG = geometry(now)
	}
	return s
}

func geometry(text string) *partition.MIG {
	m := new(partition.MIG)
	if err := m.UnmarshalText([]byte(text)); err != nil {
		panic(err)
	}
	return m
}

func (s *sliced) Wait(ctx context.Context) ([]gpu.Device, error)          { return s.Devices(ctx) }
func (s *sliced) WaitAfterLoad(ctx context.Context) ([]gpu.Device, error) { return s.Devices(ctx) }
func (s *sliced) Usage(context.Context) (gpu.Usage, error)                { return gpu.Usage{}, nil }
func (s *sliced) Loaded() bool                                            { return true }
func (s *sliced) Load(context.Context) error                              { return nil }
func (s *sliced) ModuleLoaded(string) bool                                { return true }
func (s *sliced) UnloadModule(context.Context, string) error              { return nil }
func (s *sliced) LoadModule(context.Context, string) error                { return nil }
func (s *sliced) PendingWrites() []gpu.PendingWrite                       { return nil }
func (s *sliced) Traits() []gpu.Traits {
	return []gpu.Traits{{Vendor: partition.NVIDIA, Driver: "nvidia"}}
}

func (s *sliced) Devices(context.Context) ([]gpu.Device, error) {
	var out []gpu.Device
	for _, g := range s.gpus {
		if g.Profiles = nil; !g.MIG.Off {
			g.Profiles = s.offered
		}
		out = append(out, gpu.Device{GPU: g})
	}
	return out, nil
}

func (s *sliced) Execute(_ context.Context, steps []partition.Step, tell gpu.StepFunc) error {
	var errs []error
	for _, step := range steps {
		tell(step, true, nil)
		i := slices.IndexFunc(s.gpus, func(g partition.GPU) bool { return g.Address == step.GPU })
		s.made = append(s.made, string(step.Kind)+" "+itoa(i))
		var err error
		if s.fail != nil {
			err = s.fail(step)
		}
		after := s.gpus[i].Shape().AfterStep(step)
		if err != nil && step.Kind == partition.CreateInstances {
			step.MIG = &partition.MIG{Instances: step.MIG.Instances[:1]}
			m := step.Geometry()
			after.MIG = &m
		}
		if err == nil || step.Kind == partition.CreateInstances {
			s.gpus[i].MIG = after.MIG
		}
		errs = append(errs, err)
		tell(step, false, err)
	}
	return errors.Join(errs...)
}

func (s *sliced) shapes() string {
	var out []string
	for _, g := range s.gpus {
		out = append(out, "["+g.Shape().Key()+"]")
	}
	return counted(out)
}

func TestRunOfGeometries(t *testing.T) {
	on := func(texts ...string) partition.Profile {
		p := partition.Profile{Name: "test"}
		for _, text := range texts {
			p.Groups = append(p.Groups, partition.Group{MIG: geometry(text), Count: 1})
		}
		p.Groups = append(p.Groups, partition.Group{MIG: geometry(texts[len(texts)-1]), Rest: true})
		return p
	}
	busy := errors.New("insufficient resources")
	for _, tt := range []struct {
		name    string
		now     string
		profile partition.Profile
		break_  func(*sliced)
		want    runstate.Result
		shapes  string
		made    []string
		err     string
	}{
		{"nothing to do", "4g.40gb@0 3g.40gb@4", on("3g.40gb 4g.40gb"), nil, runstate.Unchanged, "4 [4g.40gb@0 3g.40gb@4]", nil, ""},
		{"one of four", "7g.80gb@0", on("2g.20gb", "7g.80gb"), nil, runstate.Applied, "1 [2g.20gb@0] 3 [7g.80gb@0]", []string{"mig-clear 0", "mig-fill 0"}, ""},
		{"MIG on, and the reported placements", "off", on("7g.80gb"), nil, runstate.Applied, "4 [7g.80gb@0]",
			[]string{"mig-mode 0", "mig-mode 1", "mig-mode 2", "mig-mode 3", "mig-fill 0", "mig-fill 1", "mig-fill 2", "mig-fill 3"}, ""},
		{"MIG off", "7g.80gb@0", on("off"), nil, runstate.Applied, "4 [off]",
			[]string{"mig-clear 0", "mig-clear 1", "mig-clear 2", "mig-clear 3", "mig-mode 0", "mig-mode 1", "mig-mode 2", "mig-mode 3"}, ""},
		{"a geometry that does not fit changes nothing", "off", on("7g.80gb 1g.10gb"), nil, runstate.Refused, "4 [off]", nil, "1g.10gb does not fit with 7g.80gb (no free slot)"},
		{"the placements that the driver reports differ from the planned ones", "off", on("7g.80gb"), func(s *sliced) { s.offered = s.offered[1:] }, runstate.RolledBack, "4 [off]",
			[]string{"mig-mode 0", "mig-mode 1", "mig-mode 2", "mig-mode 3", "mig-mode 0", "mig-mode 1", "mig-mode 2", "mig-mode 3"}, "7g.80gb is no profile of this GPU, which has 4g.40gb"},
		{"the third fails half-way", "3g.40gb@0 1g.10gb@4", on("1g.10gb 1g.10gb 1g.10gb"), func(s *sliced) {
			s.fail = func(step partition.Step) error {
				if step.Kind == partition.CreateInstances && step.GPU == s.gpus[2].Address && len(step.MIG.Instances) == 2 && step.MIG.Instances[0].Profile == "1g.10gb" {
					return busy
				}
				return nil
			}
		}, runstate.RolledBack, "4 [3g.40gb@0 1g.10gb@4]",
			[]string{"mig-clear 0", "mig-clear 1", "mig-clear 2", "mig-clear 3", "mig-fill 0", "mig-fill 1", "mig-fill 2", "mig-fill 3",
				"mig-clear 0", "mig-clear 1", "mig-clear 2", "mig-clear 3", "mig-fill 0", "mig-fill 1", "mig-fill 2", "mig-fill 3"}, "insufficient resources"},
		{"one stays", "4g.40gb@0 3g.40gb@4", on("4g.40gb 1g.10gb 1g.10gb"), nil, runstate.Applied, "4 [4g.40gb@0 1g.10gb@4 1g.10gb@5]",
			[]string{"mig-clear 0", "mig-clear 1", "mig-clear 2", "mig-clear 3", "mig-fill 0", "mig-fill 1", "mig-fill 2", "mig-fill 3"}, ""},
		{"one is only created", "4g.40gb@0", on("4g.40gb 3g.40gb", "4g.40gb"), nil, runstate.Applied, "1 [4g.40gb@0 3g.40gb@4] 3 [4g.40gb@0]", []string{"mig-fill 0"}, ""},
		{"one is only destroyed", "4g.40gb@0 3g.40gb@4", on("3g.40gb", "4g.40gb 3g.40gb"), nil, runstate.Applied, "1 [3g.40gb@4] 3 [4g.40gb@0 3g.40gb@4]", []string{"mig-clear 0"}, ""},
		{"a destroy fails next to one that stays", "4g.40gb@0 1g.10gb@4 1g.10gb@5", on("4g.40gb", "4g.40gb 1g.10gb 1g.10gb"), func(s *sliced) {
			s.fail = func(step partition.Step) error {
				s.fail = nil
				s.gpus[0].MIG = geometry("4g.40gb@0 1g.10gb@5") // the first of the two is gone
				return errors.New("in use")
			}
		}, runstate.RolledBack, "4 [4g.40gb@0 1g.10gb@4 1g.10gb@5]", []string{"mig-clear 0", "mig-fill 0"}, "in use"},
		{"a create fails next to one that stays", "4g.40gb@0 3g.40gb@4", on("4g.40gb 2g.20gb 1g.10gb", "4g.40gb 3g.40gb"), func(s *sliced) {
			s.fail = func(step partition.Step) error {
				if step.Kind == partition.DestroyInstances {
					return nil
				}
				s.fail = nil
				return busy
			}
		}, runstate.RolledBack, "4 [4g.40gb@0 3g.40gb@4]", []string{"mig-clear 0", "mig-fill 0", "mig-clear 0", "mig-fill 0"}, "insufficient resources"},
		{"a GPU that may not be changed", "off", on("7g.80gb"), func(s *sliced) { s.gpus[1].GeometryBlocked = "it is a vGPU guest" }, runstate.Refused, "4 [off]", nil, "it is a vGPU guest"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSliced(4, tt.now)
			if tt.break_ != nil {
				tt.break_(s)
			}
			opt := Options{Rollback: true, DeviceTimeout: time.Minute, StepTimeout: time.Minute, ReloadTimeout: time.Minute}
			run := Run(t.Context(), nodeOf(s, s), tt.profile, opt, NewRecorder(runstate.Run{ID: "test"}, slog.New(slog.NewTextHandler(io.Discard, nil)), func(runstate.Run) {}))
			text := ""
			if run.Error != nil {
				text = run.Error.Text
			}
			if run.Result != tt.want || (text != "") != (tt.err != "") || !strings.Contains(text, tt.err) {
				t.Errorf("result %s, error %q; want %s, %q", run.Result, text, tt.want, tt.err)
			}
			if got := s.shapes(); got != tt.shapes {
				t.Errorf("shapes are %s, want %s", got, tt.shapes)
			}
			if diff := cmp.Diff(tt.made, s.made); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			for i, g := range run.GPUs {
				if !g.Now.Same(s.gpus[i].Shape()) {
					t.Errorf("%s is reported as %s", g.Address, g.Now)
				}
			}
		})
	}
}

func TestANamedDeviceThatCannotBePartitionedIsExplained(t *testing.T) {
	s := newSliced(1, "off")
	devices, _ := s.Devices(t.Context())
	devices = append(devices, gpu.Device{GPU: partition.GPU{Address: "0000:ff:00.0", Vendor: partition.NVIDIA}, SkipReason: "no MIG"})
	p := partition.Profile{Groups: []partition.Group{{MIG: geometry("off"), GPUs: []partition.Selector{{Address: "0000:ff:00.0"}}}}}
	if _, err := Compare(devices, p); err == nil || !strings.HasSuffix(err.Error(), "\n0000:ff:00.0 is left alone: no MIG") {
		t.Error(err)
	}
}
