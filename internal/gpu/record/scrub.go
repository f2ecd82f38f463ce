package record

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"dcm/internal/gpu/nvml"
	"dcm/internal/gpu/partition"
)

// scrub removes what identifies a board, a host or a user. Ids become their number of
// appearance, so that equal ids stay equal.
func scrub(r *Record, hostname string) {
	hives, uniques, uuids := numbers{}, numbers{}, numbers{}
	for i := range r.GPUs {
		r.GPUs[i].Hive, _ = strconv.ParseUint(hives.of(strconv.FormatUint(r.GPUs[i].Hive, 10)), 10, 64)
	}
	for i := range r.Files {
		f := &r.Files[i]
		switch path.Base(f.Path) {
		case "xgmi_hive_id":
			if v, err := strconv.ParseUint(f.Text, 0, 64); err == nil {
				f.Text = hives.of(strconv.FormatUint(v, 10))
			}
		case "properties":
			f.Text = property(property(f.Text, "hive_id", hives), "unique_id", uniques)
		case "information":
			f.Text = uuid.ReplaceAllStringFunc(f.Text, uuids.uuid)
		case "version":
			f.Text, _, _ = strings.Cut(f.Text, "Release Build") // the builder's name follows
		}
		f.Text, f.Error = anonymous(f.Text, hostname), anonymous(f.Error, hostname)
	}
	for i := range r.Calls {
		r.Calls[i].State = anonymous(r.Calls[i].State, hostname)
	}
	for i := range r.Errors {
		r.Errors[i] = anonymous(r.Errors[i], hostname)
	}
	if r.SMI != nil {
		for i := range r.SMI.GPUs {
			for j := range r.SMI.GPUs[i].Notes {
				r.SMI.GPUs[i].Notes[j] = anonymous(r.SMI.GPUs[i].Notes[j], hostname)
			}
		}
	}
	r.Kernel = anonymous(r.Kernel, hostname)
	if r.NVML != nil {
		scrubReply(r.NVML, uuids, hostname)
	}
}

func scrubReply(r *nvml.Reply, uuids numbers, hostname string) {
	r.Library = anonymous(r.Library, hostname)
	if r.Error != nil {
		r.Error.Text = anonymous(r.Error.Text, hostname)
	}
	for i := range r.GPUs {
		g := &r.GPUs[i]
		g.UUID, g.Serial, g.Processes, g.Usage = uuids.uuid(g.UUID), "", nil, nil
		for j := range g.Devices {
			g.Devices[j].UUID, g.Devices[j].Usage = uuids.uuid(g.Devices[j].UUID), nil
		}
		for j := range g.Notes {
			g.Notes[j] = anonymous(g.Notes[j], hostname)
		}
		if g.Error != nil {
			g.Error.Text = anonymous(g.Error.Text, hostname)
		}
	}
}

var (
	uuid = regexp.MustCompile(`(?:GPU|MIG)-[0-9a-fA-F][0-9a-fA-F-]{7,}`)
	home = regexp.MustCompile(`/home/[^/\s:"]+`)
)

// anonymous removes UUIDs, the name of the host and users' directories from a text.
func anonymous(text, hostname string) string {
	return Names{Hosts: []string{hostname}}.Remove(uuid.ReplaceAllString(text, "UUID"))
}

// numbers numbers values in the order of their appearance, from 1.
type numbers map[string]int

// of returns the number of a value, which is 0 for 0 and "".
func (n numbers) of(value string) string {
	if value == "" || value == "0" {
		return value
	}
	if n[value] == 0 {
		n[value] = len(n) + 1
	}
	return strconv.Itoa(n[value])
}

// uuid returns a UUID with the number in the place of the digits.
func (n numbers) uuid(value string) string {
	if value == "" {
		return ""
	}
	number, _ := strconv.Atoi(n.of(value))
	kind, _, _ := strings.Cut(value, "-")
	return fmt.Sprintf("%s-00000000-0000-4000-8000-%012x", kind, number)
}

// property replaces the value of a property of a KFD node.
func property(text, name string, ids numbers) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
			lines[i] = name + " " + ids.of(strings.TrimSpace(value))
		}
	}
	return strings.Join(lines, "\n")
}

// Hives returns the numbers of the hives by GPU, from 1 in the order of the addresses; a GPU
// in no hive has none.
func (r Record) Hives() map[partition.Address]int {
	out := make(map[partition.Address]int)
	var seen []uint64
	for _, g := range r.GPUs {
		if g.Hive == 0 {
			continue
		}
		if !slices.Contains(seen, g.Hive) {
			seen = append(seen, g.Hive)
		}
		out[g.Address] = slices.Index(seen, g.Hive) + 1
	}
	return out
}
