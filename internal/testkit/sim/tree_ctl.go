package sim

import (
	"context"
	"encoding/json"
	"strings"
	"syscall"
)

// addCtl adds the files that control the simulator:
//
//	module  write "load user_partt_mode=4" or "unload"
//	nvidia  write "load" or "unload", or the same with "nvidia_drm"
//	faults  write a fault, a list of faults, or "clear"; read the faults that have not occurred yet
//	use     write a [Using]
//	allow   write an [Allowance]; read them
//	check   write "gpu" or "node": what KFD checks before a switch
//	reset   write any text: the node gets its state after boot
//	state   read the state
//
// Other contents than these words are JSON.
func (n *Node) addCtl(t tree) {
	t.put("ctl/module", control(func() any { return n.State().Module }, n.controlModule))
	t.put("ctl/nvidia", control(func() any { return n.State().NVIDIA }, n.controlNVIDIA))
	t.put("ctl/faults", control(func() any { return n.State().Faults }, n.controlFaults))
	t.put("ctl/use", control(nil, n.controlUse))
	t.put("ctl/allow", control(func() any { return n.State().Allowed }, n.controlAllow))
	t.put("ctl/check", control(nil, n.controlCheck))
	t.put("ctl/state", control(func() any { return n.State() }, nil))
	t.put("ctl/reset", control(nil, func(context.Context, string) error { n.Reset(); return nil }))
}

func control(read func() any, write func(context.Context, string) error) *Entry {
	e := &Entry{Mode: syscall.S_IFREG, write: write}
	if read != nil {
		e.Mode |= 0o444
		e.read = func(context.Context) (string, error) {
			text, err := json.MarshalIndent(read(), "", "  ")
			return string(text) + "\n", err
		}
	}
	if write != nil {
		e.Mode |= 0o200
	}
	return e
}

func (n *Node) controlModule(ctx context.Context, text string) error {
	words := strings.Fields(text)
	if len(words) == 0 {
		return syscall.EINVAL
	}
	switch words[0] {
	case "unload":
		return n.Unload(ctx)
	case "load":
		args := make(map[string]string)
		for _, w := range words[1:] {
			name, value, _ := strings.Cut(w, "=")
			args[name] = value
		}
		p, err := ParseParameters(args)
		if err != nil {
			return syscall.EINVAL
		}
		return n.Load(ctx, p)
	}
	return syscall.EINVAL
}

func (n *Node) controlFaults(_ context.Context, text string) error {
	if strings.TrimSpace(text) == "clear" {
		n.ClearFaults()
		return nil
	}
	faults, err := parseFaults(text)
	if err != nil {
		return syscall.EINVAL
	}
	for _, f := range faults {
		if n.Inject(f) != nil {
			return syscall.EINVAL
		}
	}
	return nil
}

func (n *Node) controlUse(_ context.Context, text string) error {
	var u Using
	if json.Unmarshal([]byte(text), &u) != nil {
		return syscall.EINVAL
	}
	return n.Use(u)
}

func (n *Node) controlAllow(_ context.Context, text string) error {
	var a Allowance
	if json.Unmarshal([]byte(text), &a) != nil || n.Allow(a) != nil {
		return syscall.EINVAL
	}
	return nil
}

func (n *Node) controlCheck(_ context.Context, text string) error {
	check := strings.TrimSpace(text)
	if check != "gpu" && check != "node" {
		return syscall.EINVAL
	}
	n.LockNode(check == "node")
	return nil
}

func parseFaults(text string) ([]Fault, error) {
	var many []Fault
	if err := json.Unmarshal([]byte(text), &many); err == nil {
		return many, nil
	}
	var one Fault
	err := json.Unmarshal([]byte(text), &one)
	return []Fault{one}, err
}
