package change

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/text"
)

// at is a moment of the change in the tests, in seconds.
func at(seconds float64) time.Time {
	return time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC).Add(time.Duration(seconds * float64(time.Second)))
}

// reload returns the picture of a run with a reload and the switch of three GPUs, after that many seconds.
func reload(seconds float64) picture {
	step := func(kind partition.Kind, gpu, to string, from, until float64) runstate.Step {
		s := runstate.Step{Step: partition.Step{Kind: kind, GPU: partition.Address(gpu), From: "SPX", To: to}}
		if seconds >= from {
			s.Started = at(from)
		}
		if seconds >= until {
			s.Finished = at(until)
		}
		return s
	}
	p := picture{services: []string{"a.service", "b.service", "c.service"}, stopping: at(0)}
	if seconds < 1 {
		return p
	}
	request := step(partition.RequestMemory, "0000:05:00.0", "NPS4", 1, 1.5)
	request.Hive = []partition.Address{"0000:05:00.0", "0000:26:00.0", "0000:46:00.0"}
	p.run = &runstate.Run{ID: "1", Started: at(1), Steps: []runstate.Step{request, step(partition.ReloadDriver, "", "", 1.5, 60)}}
	for i, gpu := range request.Hive {
		p.run.Steps = append(p.run.Steps, step(partition.SwitchCompute, string(gpu), "CPX", 60, 61+float64(i)))
	}
	if seconds >= 64 {
		p.run.Finished = at(64)
	}
	if seconds >= 66 {
		p.ended = at(66)
	}
	return p
}

func drawing(p picture, now time.Time, width int) string {
	var b bytes.Buffer
	last := map[partition.Kind]time.Duration{partition.ReloadDriver: 71 * time.Second}
	for _, r := range p.rows(now, last) {
		r.frame = 2
		fmt.Fprintln(&b, r.text(&console.Console{}, width))
	}
	return b.String()
}

func TestStage_MIGMode(t *testing.T) {
	turn := func(modes ...string) []runstate.Step {
		var out []runstate.Step
		for i, to := range modes {
			out = append(out, runstate.Step{Step: partition.Step{Kind: partition.SetMIGMode, GPU: partition.Address(fmt.Sprintf("0000:0%d:00.0", i)), To: to}})
		}
		return out
	}
	on, off := partition.Shape{MIG: &partition.MIG{}}.String(), partition.Shape{MIG: &partition.MIG{Off: true}}.String()
	for want, steps := range map[string][]runstate.Step{
		"turn MIG on for 2 GPUs": turn(on, on), "turn MIG off for 2 GPUs": turn(off, off), "turn MIG on or off for 2 GPUs": turn(on, off),
		"turn MIG on for 0000:00:00.0": turn(on),
	} {
		if stages := stagesOf(steps); len(stages) != 1 || stages[0].text() != want {
			t.Errorf("%d stages, the first one %q, want %q", len(stages), stages[0].text(), want)
		}
	}
}

func TestPicture_Stages(t *testing.T) {
	for _, tt := range []struct {
		at   float64
		want string
	}{
		{0.5, `
  ⠹ stop 3 services                       0.5 s
    start 3 services
`}, {38, `
  ✓ stop 3 services                       1.0 s
  ✓ request NPS4 for 3 GPUs               0.5 s
  ⠹ reload the driver                     37 s   the last took 71 s
    switch 3 GPUs to CPX                  waiting
    start 3 services
`}, {62.5, `
  ✓ stop 3 services                       1.0 s
  ✓ request NPS4 for 3 GPUs               0.5 s
  ✓ reload the driver                     59 s
  ⠹ switch 3 GPUs to CPX                  2.5 s, 2 of 3
    start 3 services
`}, {66, `
  ✓ stop 3 services                       1.0 s
  ✓ request NPS4 for 3 GPUs               0.5 s
  ✓ reload the driver                     59 s
  ✓ switch 3 GPUs to CPX                  3.0 s
  ✓ start 3 services                      2.0 s
`},
	} {
		if got := drawing(reload(tt.at), at(tt.at), 80); got != tt.want[1:] {
			t.Errorf("after %g s:\n%s\nwant\n%s", tt.at, got, tt.want[1:])
		}
	}
}

func TestPicture_Failure(t *testing.T) {
	p := reload(66)
	p.run.Steps[3].Error = "cannot set CPX\nit is busy"
	undo := p.run.Steps[2]
	undo.Undo, undo.From, undo.To, undo.Started, undo.Finished = true, "CPX", "SPX", time.Time{}, time.Time{}
	p.run.Steps = append(p.run.Steps, undo)
	got := drawing(p, at(66), 90)
	for _, want := range []string{
		"  × switch 3 GPUs to CPX                            3.0 s, 2 of 3   cannot set CPX; it is…",
		"    go back: switch 0000:05:00.0 from CPX to SPX    not begun",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no line %q in\n%s", want, got)
		}
	}
}

func TestPicture_NeverWider(t *testing.T) {
	for width := 40; width < 100; width++ {
		for _, seconds := range []float64{0.5, 38, 62.5, 66} {
			for line := range strings.Lines(drawing(reload(seconds), at(seconds), width)) {
				if n := text.Width(strings.TrimRight(line, "\n")); n > width {
					t.Errorf("width %d: a line of %d: %s", width, n, line)
				}
			}
		}
	}
}

// Without a terminal each step has one line.
func TestProgress_Lines(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&console.Console{Out: &out}, nil)
	for _, seconds := range []float64{0.5, 38, 62.5, 66, 66} {
		p.now = reload(seconds)
		p.show()
	}
	want := `done in 1s: stop 3 services
done in 500ms: request NPS4 for 3 GPUs of one hive, through 0000:05:00.0 (now SPX)
done in 58.5s: reload the driver
done in 1s: switch 0000:05:00.0 from SPX to CPX
done in 2s: switch 0000:26:00.0 from SPX to CPX
done in 3s: switch 0000:46:00.0 from SPX to CPX
done in 2s: start 3 services
`
	if out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", &out, want)
	}
}

// On a terminal the lines are replaced.
func TestProgress_Redraws(t *testing.T) {
	var out bytes.Buffer
	con := console.Fixed(&out, 80)
	con.Live = true
	p := newProgress(con, nil)
	p.now = reload(38)
	p.show()
	p.show()
	if n := strings.Count(out.String(), "\x1b[5A\x1b[J"); n != 1 {
		t.Errorf("5 lines are replaced %d times, want 1:\n%q", n, &out)
	}
}
