package partition

import (
	"fmt"
	"slices"
)

// Step is one change.
type Step struct {
	Kind Kind      `json:"kind"`
	GPU  Address   `json:"gpu,omitempty"`  // GPU that is written to; "" for a reload
	Hive []Address `json:"hive,omitempty"` // all GPUs of a memory request
	From string    `json:"from,omitempty"`
	To   string    `json:"to,omitempty"`

	MIG   *MIG `json:"mig,omitempty"`   // instances to create or to destroy, in this order
	Kept  *MIG `json:"kept,omitempty"`  // other instances of the GPU, which stay; nil: none
	Alone bool `json:"-"`               // the other instances of the GPU are not known; they stay, and are not compared
	Reset bool `json:"reset,omitempty"` // switching MIG resets the GPU
	Again bool `json:"again,omitempty"` // a setting that the GPU has before the plan, and that the plan resets
}

// MayRevert reports whether the driver is known to report success for such a step and to show
// the former state a moment later: MIG turned off on a GB200 (dra-driver-nvidia-gpu pull
// request 852), and destroyed instances on an H100 (go-nvml issue 146).
func (s Step) MayRevert() bool {
	return s.Kind == DestroyInstances || s.Kind == SetMIGMode && !s.On()
}

func (s Step) String() string {
	if one, ok := settingOf(s.Kind); ok {
		return s.settingText(one)
	}
	switch s.Kind {
	case RequestMemory:
		if len(s.Hive) > 1 {
			return fmt.Sprintf("request %s for %d GPUs of one hive, through %s (now %s)", s.To, len(s.Hive), s.GPU, s.From)
		}
		return fmt.Sprintf("request %s for %s (now %s)", s.To, s.GPU, s.From)
	case ReloadDriver:
		return "reload the driver"
	}
	if s.Kind.mig() {
		return s.migText()
	}
	return fmt.Sprintf("switch %s from %s to %s", s.GPU, s.From, s.To)
}

// DoneText returns the step in the past tense. back marks a step of a rollback.
func (s Step) DoneText(back bool) string {
	switch s.Kind {
	case RequestMemory:
		gpus := "1 GPU"
		if n := len(s.Hive); n > 1 {
			gpus = fmt.Sprintf("%d GPUs", n)
		}
		return fmt.Sprintf("requested %s instead of %s for %s through %s", s.To, s.From, gpus, s.GPU)
	case ReloadDriver:
		return "reloaded the driver"
	case DestroyInstances, SetMIGMode, CreateInstances:
		return s.migDone(back)
	}
	if one, ok := settingOf(s.Kind); ok {
		s.Again = false
		return s.settingText(one)
	}
	again := ""
	if back {
		again = " back"
	}
	return fmt.Sprintf("switched %s%s from %s to %s", s.GPU, again, s.From, s.To)
}

func (s Step) settingText(one setting) string {
	if s.Again {
		return fmt.Sprintf("set the %s of %s to %s again, since the driver resets it", one.name, s.GPU, s.To)
	}
	return fmt.Sprintf("set the %s of %s from %s to %s", one.name, s.GPU, s.From, s.To)
}

// Steps is an ordered plan. It is empty if nothing has to change.
type Steps []Step

// GPUs returns the GPUs that the steps change.
func (s Steps) GPUs() []Address {
	var out []Address
	for _, one := range s {
		if one.GPU != "" {
			out = append(out, one.GPU)
		}
		out = append(out, one.Hive...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Reloads reports whether the plan reloads a driver.
func (s Steps) Reloads() bool {
	return slices.ContainsFunc(s, func(st Step) bool { return st.Kind.Reloads() })
}

// KeepsUsers reports whether every step leaves the partitions as they are, with their users.
func (s Steps) KeepsUsers() bool {
	return !slices.ContainsFunc(s, func(st Step) bool { return !st.Kind.KeepsUsers() })
}

// NextBatch splits off the steps that run next, concurrently. After an observable batch, the
// remaining steps are a forecast.
func (s Steps) NextBatch() (now, then Steps) {
	if len(s) == 0 {
		return nil, nil
	}
	n := 1
	for n < len(s) && s[0].Kind.Concurrent() && s[n].Kind == s[0].Kind {
		n++
	}
	return s[:n], s[n:]
}
