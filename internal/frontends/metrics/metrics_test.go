package metrics

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/status"
	"dcm/internal/gpu/partition"
)

// at returns the time this many milliseconds after the start of a run.
func at(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }

func step(kind partition.Kind, from, to int) runstate.Step {
	return runstate.Step{Step: partition.Step{Kind: kind}, Started: at(from), Finished: at(to)}
}

func facts() status.Account {
	gpu := func(i int, address, compute string, n int) status.GPU {
		return status.GPU{Index: i, Address: address, Model: "MI300X", Mode: status.Shape{Compute: compute, Memory: "NPS4"}, Partitions: n}
	}
	left := gpu(1, "0000:26:00.0", "SPX", 1)
	left.Free = &status.FreeSlots{Slots: 3, Longest: 2}
	left.Want, left.Left = status.Shape{Compute: "CPX", Memory: "NPS4"}, true
	return status.Account{
		DCM:     "0.1.0",
		Profile: status.Profile{Effective: `odd\name`, Source: "/etc/dcm/dcm.toml:7"},
		Health:  status.Health{State: status.Clients, Code: 2, InSync: true},
		Daemon:  status.Daemon{Phase: runstate.InSync, Retry: at(30000)},
		Clients: []status.Client{{Unit: "a.service", Back: true}, {Unit: "b.service"}, {Unit: "c.service", Back: true, GPU: runstate.NoGPU}, {Unit: "d.service", Back: true, GPU: runstate.GPUAwaited}},
		Holders: []status.Holder{{PID: 7, InWay: true}, {PID: 8, InWay: true}, {PID: 9}},
		Restart: runstate.Restart{Run: "r", Asked: at(-1500), Settled: at(9250)},
		LastRun: &runstate.Run{
			ID: "r", Started: at(0), Finished: at(9000), Result: runstate.Applied,
			Steps:  []runstate.Step{step(partition.RequestMemory, 0, 10), step(partition.ReloadDriver, 10, 8000), step(partition.SwitchCompute, 8000, 8500), step(partition.SwitchCompute, 8100, 8900)},
			Totals: runstate.Totals{Runs: map[runstate.Result]int{runstate.Applied: 3, runstate.Killed: 1}, Succeeded: at(9000)},
		},
		GPUs: []status.GPU{
			gpu(0, "0000:05:00.0", "CPX", 8), left, {Index: -1, Address: "0000:03:00.0", Why: "a display"},
		},
		Expected: status.Expected{GPUs: 3},

		Unconfined: []status.Unconfined{{Unit: "a.service"}},
	}
}

// samples returns the lines that are not comments, without those that depend on the version of Go.
func samples(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "dcm_build_info") {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}

func TestRender(t *testing.T) {
	want := []string{
		`dcm_profile_info{profile="odd\\name",source="/etc/dcm/dcm.toml:7"} 1`,
		"dcm_health 2",
		`dcm_health_info{state="clients-down"} 1`,
		"dcm_in_sync 1",
		"dcm_config_last_load_successful 1",
		"dcm_clients_not_back 1",
		`dcm_client_without_gpu{unit="c.service"} 1`,
		"dcm_units_unconfined 1",
		"dcm_blocked 1",
		"dcm_blocking_processes 2",
		"dcm_next_try_timestamp_seconds 1030",
		"dcm_daemon_alive_timestamp_seconds 1020",
		`dcm_gpu_mode_info{gpu="0000:05:00.0",model="MI300X",compute="CPX",memory="NPS4"} 1`,
		`dcm_gpu_mode_info{gpu="0000:26:00.0",model="MI300X",compute="SPX",memory="NPS4"} 1`,
		`dcm_gpu_profile{gpu="0000:05:00.0",state="applied"} 1`,
		`dcm_gpu_profile{gpu="0000:05:00.0",state="selected"} 0`,
		`dcm_gpu_profile{gpu="0000:05:00.0",state="left"} 0`,
		`dcm_gpu_profile{gpu="0000:26:00.0",state="applied"} 0`,
		`dcm_gpu_profile{gpu="0000:26:00.0",state="selected"} 0`,
		`dcm_gpu_profile{gpu="0000:26:00.0",state="left"} 1`,
		`dcm_gpu_partitions{gpu="0000:05:00.0"} 8`,
		`dcm_gpu_partitions{gpu="0000:26:00.0"} 1`,
		`dcm_gpu_free_slots{gpu="0000:26:00.0"} 3`,
		`dcm_gpu_free_slots_longest_run{gpu="0000:26:00.0"} 2`,
		`dcm_gpu_held_memory_bytes{gpu="0000:05:00.0"} 0`,
		`dcm_gpu_held_memory_bytes{gpu="0000:26:00.0"} 0`,
		"dcm_gpus 2",
		"dcm_gpus_expected 3",
		"dcm_queue_requests 0",
		"dcm_queue_longest_wait_seconds 0",
		`dcm_runs_total{result="unchanged"} 0`,
		`dcm_runs_total{result="applied"} 3`,
		`dcm_runs_total{result="no-profile"} 0`,
		`dcm_runs_total{result="round"} 0`,
		`dcm_runs_total{result="refused"} 0`,
		`dcm_runs_total{result="rolled-back"} 0`,
		`dcm_runs_total{result="partial"} 0`,
		`dcm_runs_total{result="failed"} 0`,
		`dcm_runs_total{result="interrupted"} 0`,
		`dcm_runs_total{result="killed"} 1`,
		"dcm_last_success_timestamp_seconds 1009",
		"dcm_last_run_duration_seconds 9",
		`dcm_last_run_phase_seconds{phase="reload"} 7.99`,
		`dcm_last_run_phase_seconds{phase="start"} 0.25`,
		`dcm_last_run_phase_seconds{phase="stop"} 1.5`,
		`dcm_last_run_phase_seconds{phase="switch"} 0.9`,
	}
	if diff := cmp.Diff(want, samples(string(Render(facts(), at(20000), nil)))); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
}

func TestRender_UnknownValues(t *testing.T) {
	want := []string{
		`dcm_profile_info{profile="none",source=""} 1`,
		"dcm_health 2",
		`dcm_health_info{state="configuration-broken"} 1`,
		"dcm_in_sync 0",
		"dcm_config_last_load_successful 0",
		"dcm_clients_not_back 0",
		"dcm_units_unconfined 0",
		"dcm_blocked 0",
		"dcm_blocking_processes 0",
		"dcm_gpus 0",
		"dcm_gpus_expected 0",
		"dcm_queue_requests 0",
		"dcm_queue_longest_wait_seconds 0",
	}
	got := samples(string(Render(status.Evaluate(status.Account{Profile: status.Profile{Broken: "dcm.toml:1: bad"}}), time.Time{}, nil)))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
}

func TestPhases_RunWithoutDaemon(t *testing.T) {
	f := facts()
	f.LastRun.ID = "another"
	got := Phases(f.Restart, *f.LastRun)
	if _, ok := got["stop"]; ok || len(got) != 2 {
		t.Errorf("phases: got %v", got)
	}
}

// promtool checks names, types and texts.
func TestRender_Promtool(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed (Debian: prometheus)")
	}
	cmd := exec.Command(promtool, "check", "metrics")
	cmd.Stdin = strings.NewReader(string(Render(facts(), at(20000), nil)))
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

// An unseen holder blocks like a visible one.
func TestRender_UnseenHolder(t *testing.T) {
	got := string(Render(status.Account{Health: status.Health{State: status.Held}}, time.Time{}, nil))
	if !strings.Contains(got, "\ndcm_blocked 1\n") || !strings.Contains(got, "\ndcm_blocking_processes 0\n") {
		t.Errorf("metrics:\n%s", got)
	}
}

func TestRender_Queue(t *testing.T) {
	text := string(Render(status.Account{Taken: time.Unix(3600, 0), Queue: []status.Queued{{Since: time.Unix(2000, 0)}, {Since: time.Unix(1000, 0)}}}, time.Time{}, nil))
	for _, want := range []string{"\ndcm_queue_requests 2\n", "\ndcm_queue_longest_wait_seconds 2600\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}

func TestRender_Leased(t *testing.T) {
	text := string(Render(facts(), at(20000), map[string]float64{"ada": 12.5, "(others)": 3}))
	want := "# TYPE dcm_leased_partition_seconds_total counter\n" +
		"dcm_leased_partition_seconds_total{user=\"(others)\"} 3\ndcm_leased_partition_seconds_total{user=\"ada\"} 12.5\n"
	if !strings.Contains(text, want) {
		t.Errorf("metrics: want %q in:\n%s", want, text)
	}
}
