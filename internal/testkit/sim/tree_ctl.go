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
//	allocation write "on" or "off": whether the driver has compute_partition_mem_alloc_mode (Linux 7.1)
//	cleaner write "on" or "off": whether the driver has run_cleaner_shader and enforce_isolation
//	reset   write any text: the node gets its state after boot
//	state   read the state
//
// Other contents than these words are JSON.
func addCtl(n *Node, t tree) {
	c := controls{n}
	t.put("ctl/module", control(func() any { return n.State().Module }, c.module))
	t.put("ctl/nvidia", control(func() any { return n.State().NVIDIA }, c.nvidia))
	t.put("ctl/faults", control(func() any { return n.State().Faults }, c.faults))
	t.put("ctl/use", control(nil, c.use))
	t.put("ctl/allow", control(func() any { return n.State().Allowed }, c.allow))
	t.put("ctl/check", control(nil, c.check))
	t.put("ctl/allocation", control(nil, c.allocation))
	t.put("ctl/cleaner", control(nil, c.cleaner))
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

// controls are the writes to the files that control a node.
type controls struct{ node *Node }

func (c controls) module(ctx context.Context, text string) error {
	words := strings.Fields(text)
	if len(words) == 0 {
		return syscall.EINVAL
	}
	switch words[0] {
	case "unload":
		return c.node.Unload(ctx)
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
		return c.node.Load(ctx, p)
	}
	return syscall.EINVAL
}

// nvidia loads or unloads the nvidia module and the modules that use it.
func (c controls) nvidia(_ context.Context, text string) error {
	switch strings.TrimSpace(text) {
	case "load":
		return c.node.LoadNVIDIA()
	case "unload":
		return c.node.UnloadNVIDIA()
	case "load " + displayModule:
		return loadDisplay(c.node)
	case "unload " + displayModule:
		return unloadDisplay(c.node)
	}
	return syscall.EINVAL
}

func (c controls) faults(_ context.Context, text string) error {
	if strings.TrimSpace(text) == "clear" {
		c.node.ClearFaults()
		return nil
	}
	faults, err := parseFaults(text)
	if err != nil {
		return syscall.EINVAL
	}
	for _, f := range faults {
		if c.node.Inject(f) != nil {
			return syscall.EINVAL
		}
	}
	return nil
}

func (c controls) use(_ context.Context, text string) error {
	var u Using
	if json.Unmarshal([]byte(text), &u) != nil {
		return syscall.EINVAL
	}
	return c.node.Use(u)
}

func (c controls) allow(_ context.Context, text string) error {
	var a Allowance
	if json.Unmarshal([]byte(text), &a) != nil || setAllowance(c.node, a) != nil {
		return syscall.EINVAL
	}
	return nil
}

func (c controls) check(_ context.Context, text string) error {
	check := strings.TrimSpace(text)
	if check != "gpu" && check != "node" {
		return syscall.EINVAL
	}
	lockNode(c.node, check == "node")
	return nil
}

func (c controls) allocation(_ context.Context, text string) error {
	word := strings.TrimSpace(text)
	if word != "on" && word != "off" {
		return syscall.EINVAL
	}
	n := c.node
	n.mu.Lock()
	defer n.mu.Unlock()
	n.opts.Allocation = word == "on"
	for _, b := range n.boards {
		if b.allocation = ""; b.Chip.XCC > 0 {
			b.allocates = n.opts.Allocation
			b.resetAllocation()
		}
	}
	n.changed()
	return nil
}

func (c controls) cleaner(_ context.Context, text string) error {
	word := strings.TrimSpace(text)
	if word != "on" && word != "off" {
		return syscall.EINVAL
	}
	n := c.node
	n.mu.Lock()
	defer n.mu.Unlock()
	n.opts.Cleaner = word == "on"
	for _, b := range n.boards {
		b.resetIsolation()
	}
	n.changed()
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
