package sim

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"dcm/internal/gpu/nvml"
	"dcm/internal/gpu/nvml/standin"
	"dcm/internal/gpu/partition"
	"dcm/internal/gpu/record"
)

// recorded is the state of a board that comes from a record.
type recorded struct {
	mode       partition.Mode       // at boot
	allocation partition.Allocation // at boot; "": the driver has none
	config     partition.Compute    // selection of compute_partition_config
	plain      bool                 // the driver has no compute_partition_config
	texts      map[string]string    // files whose content does not depend on the state
	errors     map[string]Errno     // of reads of partition files, by name
	nvml       *nvml.GPU
	resets     bool // the kernel can reset the function
}

// ReadKind returns the node of a record file.
func ReadKind(file string) (Kind, error) {
	r, err := record.Load(file)
	if err != nil {
		return Kind{}, err
	}
	return FromRecord(r), nil
}

// FromRecord returns the recorded node. A read cannot show everything: for example, it shows the
// compute modes of the current memory mode only. The rest is that of the simulator's chip with the
// same device id. Without such a chip, everything that the record does not rule out is possible.
func FromRecord(r record.Record) Kind {
	k := Kind{Name: "record", About: "a recorded node", CPUs: sockets(r)}
	for _, a := range r.Addresses() {
		b := boardOf(r, a)
		if b.Chip.AMD() && b.Chip.XCC > 0 {
			k.usage = usageOf(r, a)
		}
		k.Boards = append(k.Boards, b)
	}
	if r.NVML != nil {
		k.driver = r.NVML.Driver
	}
	slices.SortFunc(k.Boards, func(a, b Board) int { return a.Address.Compare(b.Address) })
	return k
}

// usageOf returns the format of the usage tables of a GPU.
func usageOf(r record.Record, a partition.Address) UsageFormat {
	all, _, _ := strings.Cut(textOf(r, a, "gpu_metrics"), ",")
	own, _, _ := strings.Cut(textOf(r, a, "xcp/xcp_metrics"), ",")
	for _, f := range []struct {
		all, own string
		format   UsageFormat
	}{
		{"1.8", "1.0", UsagePartitions}, {"1.9", "1.1", UsageAttributes}, {"1.6", "", UsageGPU16}, {"1.7", "", UsageGPU17}, {"1.8", "", UsageGPU18},
		{"1.3", "", UsageGPU13}, {"", "", UsageNothing},
	} {
		if f.all == all && f.own == own {
			return f.format
		}
	}
	return UsageOther
}

// sockets counts the CPU nodes of KFD or, without KFD, the highest NUMA node of a GPU.
func sockets(r record.Record) int {
	n := 0
	for _, f := range r.Files {
		if path.Base(f.Path) == "gpu_id" && f.Text == "0" {
			n++
		}
	}
	for _, a := range r.Addresses() {
		n = max(n, int(numberOf(r, a, "numa_node"))+1)
	}
	return max(n, 1)
}

// resume puts a GPU in the modes in which it was recorded.
func (b *board) resume() {
	if b.recorded == nil || b.memory != b.recorded.mode.Memory || !slices.Contains(partition.ComputeModes(), b.recorded.mode.Compute) {
		return
	}
	b.compute, b.config = b.recorded.mode.Compute, b.recorded.mode.Compute
	if slices.Contains(partition.ComputeModes(), b.recorded.config) {
		b.config = b.recorded.config
	}
}

// constant are files of a GPU whose content does not depend on its state.
func constant() []string {
	return []string{"product_name", "product_number", "vbios_version", "mem_info_vram_total", "mem_info_vram_vendor"}
}

// addRecorded replaces the constant files of a recorded GPU.
func (b *board) addRecorded(t tree) {
	if b.recorded == nil {
		return
	}
	for _, name := range constant() {
		delete(t, name)
		if content, ok := b.recorded.texts[name]; ok {
			t.text(name, content)
		}
	}
}

// textOf returns the content of a file of a function, "" without one.
func textOf(r record.Record, a partition.Address, name string) string {
	if f := r.Attribute(a, name); f != nil {
		return f.Text
	}
	return ""
}

func numberOf(r record.Record, a partition.Address, name string) int64 {
	v, err := strconv.ParseInt(textOf(r, a, name), 0, 64)
	if err != nil {
		return 0
	}
	return v
}

func boardOf(r record.Record, a partition.Address) Board {
	b := Board{Address: a, NUMA: max(0, int(numberOf(r, a, "numa_node"))), Hive: r.Hives()[a]}
	c := Chip{Vendor: uint16(numberOf(r, a, "vendor")), Device: uint16(numberOf(r, a, "device"))}
	for _, k := range Kinds() {
		for _, like := range k.Boards {
			if like.Chip.Vendor == c.Vendor && like.Chip.Device == c.Device {
				c = like.Chip
			}
		}
	}
	c.SubVendor, c.SubDevice = uint16(numberOf(r, a, "subsystem_vendor")), uint16(numberOf(r, a, "subsystem_device"))
	c.Class, c.Revision = uint32(numberOf(r, a, "class")), uint8(numberOf(r, a, "revision"))
	if f := r.Attribute(a, "driver"); f != nil {
		c.Driver = f.Link
	}
	b.recorded = &recorded{texts: make(map[string]string), errors: make(map[string]Errno)}
	b.recorded.resets = r.Attribute(a, "reset") != nil
	b.Chip = c
	switch {
	case c.AMD():
		b.addAMD(r)
	case c.NVIDIA():
		b.addNVIDIA(r)
	}
	return b
}

// addAMD takes the recorded files of an AMD GPU.
func (b *Board) addAMD(r record.Record) {
	c, a := &b.Chip, b.Address
	if name := textOf(r, a, "product_name"); name != "" {
		c.Product = name
	}
	if v := numberOf(r, a, "mem_info_vram_total"); v > 0 {
		c.VRAM = uint64(v)
	}
	for _, name := range constant() {
		if f := r.Attribute(a, name); f != nil && f.Error == "" {
			b.recorded.texts[name] = f.Text
		}
	}
	compute := r.Attribute(a, computeFile)
	if compute == nil {
		c.XCC, c.Accepts, c.Memory = 0, nil, nil
		return
	}
	b.addErrors(r)
	c.Locked = !writable(compute.Mode)
	b.addTopology(r)
	b.recorded.mode = partition.Mode{Compute: partition.Compute(compute.Text), Memory: partition.Memory(textOf(r, a, memoryFile))}
	b.recorded.allocation = partition.Allocation(strings.ToLower(textOf(r, a, allocationFile)))
	c.Memory = modesIn[partition.Memory](textOf(r, a, "available_memory_partition"))
	if len(c.Memory) == 0 && b.recorded.mode.Memory != "" {
		c.Memory = []partition.Memory{b.recorded.mode.Memory}
	}
	supported := modesIn[partition.Compute](textOf(r, a, "compute_partition_config/supported_xcp_configs"))
	b.recorded.plain = supported == nil
	b.recorded.config = partition.Compute(textOf(r, a, "compute_partition_config/"+configFile))
	b.accept(b.recorded.mode.Memory, modesIn[partition.Compute](textOf(r, a, "available_compute_partition")))
	b.acceptListed(supported, r)
}

// writable reports whether the owner may write to a file with these permissions.
func writable(mode string) bool {
	bits, err := strconv.ParseUint(mode, 8, 12)
	return err == nil && bits&0o200 != 0
}

// addErrors takes the errors of reads of partition files. A missing permission is that of the
// user who took the record.
func (b *Board) addErrors(r record.Record) {
	dir := path.Dir(r.Attribute(b.Address, "class").Path) + "/"
	for _, f := range r.Files {
		name, own := strings.CutPrefix(f.Path, dir)
		if !own || f.Error == "" || f.Error == "EACCES" || f.Error == "EPERM" {
			continue
		}
		var e Errno
		if e.UnmarshalText([]byte(f.Error)) != nil {
			e = Errno(syscall.ETIMEDOUT)
		}
		b.recorded.errors[path.Base(name)] = e
	}
}

// addTopology takes the sum of the partitions in the KFD topology.
func (b *Board) addTopology(r record.Record) {
	xcc, simds, perCU := 0, 0, 4
	for _, f := range r.Files {
		if path.Base(f.Path) != "properties" || strings.Contains(f.Path, "mem_banks") {
			continue
		}
		p := kfdProperties(f.Text)
		if p["domain"] != domain(b.Address) || p["location_id"]>>8&0xff != bus(b.Address) || p["gfx_target_version"] == 0 {
			continue
		}
		xcc, simds, perCU = xcc+int(p["num_xcc"]), simds+int(p["simd_count"]), max(1, int(p["simd_per_cu"]))
		b.Chip.GFX = int(p["gfx_target_version"])
	}
	if xcc > 0 {
		b.Chip.XCC, b.Chip.CU = xcc, simds/perCU/xcc
	}
}

func kfdProperties(text string) map[string]uint64 {
	out := make(map[string]uint64)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		out[name], _ = strconv.ParseUint(value, 10, 64)
	}
	return out
}

// accept sets the compute modes of a memory mode; nil leaves those of the chip.
func (b *Board) accept(m partition.Memory, compute []partition.Compute) {
	if compute == nil {
		return
	}
	all := slices.Clone(b.Chip.Accepts)
	i := slices.IndexFunc(all, func(a Accepted) bool { return a.Memory == m })
	if i < 0 {
		all, i = append(all, Accepted{Memory: m}), len(all)
	}
	all[i].Compute = compute
	b.Chip.Accepts = all
}

// acceptListed lets each listed compute mode fit the memory modes that the record has for it,
// and one without a known memory mode fit every other one.
func (b *Board) acceptListed(supported []partition.Compute, r record.Record) {
	known := make(map[partition.Compute][]partition.Memory)
	for _, g := range r.GPUs {
		if g.Address == b.Address {
			known = g.MemoryFor
		}
	}
	for _, c := range supported {
		memory := known[c]
		if memory == nil && len(b.Chip.memoryFor(c)) == 0 {
			memory = slices.DeleteFunc(slices.Clone(b.Chip.Memory), func(m partition.Memory) bool { return m == b.recorded.mode.Memory })
		}
		for _, m := range memory {
			if fits := b.Chip.Fits(m); !slices.Contains(fits, c) {
				b.accept(m, append(slices.Clone(fits), c))
			}
		}
	}
}

// modesIn parses a list of modes; nil for none.
func modesIn[M ~string](text string) []M {
	if text == "" || strings.EqualFold(text, "not supported") {
		return nil
	}
	var out []M
	for name := range strings.SplitSeq(text, ",") {
		out = append(out, M(strings.TrimSpace(name)))
	}
	return out
}

// addNVIDIA takes the recorded reply of NVIDIA's library for a GPU.
func (b *Board) addNVIDIA(r record.Record) {
	if r.NVML == nil {
		return
	}
	for i, g := range r.NVML.GPUs {
		if g.Address == b.Address {
			b.recorded.nvml = &r.NVML.GPUs[i]
			b.Chip.Product = g.Name
		}
	}
}

// standInGPU returns the recorded GPU for the stand-in of NVIDIA's library.
func standInGPU(g nvml.GPU) standin.GPU {
	out := standin.GPU{Address: g.Address, Device: g.Device, Subsystem: g.Subsystem, Memory: int(g.Memory >> 20), MIG: g.MIG != nil, Resetless: -1, Name: g.Name}
	if g.Minor != nil {
		out.Minor = *g.Minor
	}
	if g.Resetless != nil {
		out.Kept, out.Resetless = !*g.Resetless, 0
		if *g.Resetless {
			out.Resetless = 1
		}
	}
	if g.MIG != nil {
		out.Current, out.Pending = g.MIG.Current, g.MIG.Pending
	}
	out.Virtualization = slices.Index([]string{nvml.Bare, nvml.Passthrough, nvml.VGPUGuest, nvml.VGPUHost, nvml.VSGAHost}, g.Virtualization)
	out.Virtualization = max(0, out.Virtualization)
	places := make(map[int]int) // index of a profile line by id
	for _, p := range g.Profiles {
		if len(p.Places) == 0 {
			continue
		}
		one := standin.Profile{Index: p.Index, ID: p.ID, Slices: p.Slices, Memory: int(p.MemoryMB), Max: p.Max, Size: p.Places[0].Size, Name: p.Name}
		for _, place := range p.Places {
			one.Starts = append(one.Starts, place.Start)
		}
		out.Memory = max(out.Memory, one.Memory) // a record of dcm before it had the memory
		places[p.ID] = len(out.Profiles)
		out.Profiles = append(out.Profiles, one)
	}
	for _, i := range g.Instances {
		one := standin.Instance{ID: i.ID, Profile: i.Profile, Start: i.Place.Start}
		for _, c := range i.Compute {
			one.Compute = append(one.Compute, standin.Compute{ID: c.ID, Slices: c.Slices, Start: c.Place.Start})
		}
		out.Instances = append(out.Instances, one)
	}
	return out
}
