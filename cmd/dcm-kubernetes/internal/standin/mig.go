package standin

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"dcm/cmd/dcm-kubernetes/internal/agent"
)

// off is the text of a GPU with MIG off, as in an account.
const off = "MIG off"

// NewH100 returns a DCM with H100 GPUs that have MIG off.
func NewH100() *DCM {
	return &DCM{mig: slices.Repeat([]string{off}, GPUs), version: time.Unix(1, 0), changed: make(chan struct{})}
}

// fits is how many instances of a profile an H100 has at most.
var fits = map[string]int{"1g.10gb": 7, "1g.10gb+me": 1, "1g.20gb": 4, "2g.20gb": 3, "3g.40gb": 2, "4g.40gb": 1, "7g.80gb": 1}

var (
	groupMIG   = regexp.MustCompile(`(?m)^mig = (.*)$`)
	groupGPUs  = regexp.MustCompile(`(?m)^gpus = \[(.*)\]$`)
	groupCount = regexp.MustCompile(`"([^"]+)" = (\d+)`)
)

// geometry returns the instances of each GPU in a profile of a text, or in one that dcm generates.
func geometry(text, profile string) ([]string, error) {
	_, body, defined := strings.Cut(text, "[profiles."+strconv.Quote(profile)+"]\n")
	if !defined {
		one, err := generatedMIG(profile)
		return slices.Repeat([]string{one}, GPUs), err
	}
	out := make([]string, GPUs)
	for _, group := range strings.Split(body, "[[")[1:] {
		shape := off
		if m := groupMIG.FindStringSubmatch(group); m[1] != `"off"` {
			var list []string
			for _, c := range groupCount.FindAllStringSubmatch(m[1], -1) {
				n, _ := strconv.Atoi(c[2])
				if n > fits[c[1]] {
					return nil, &agent.Refusal{Name: agent.NoSuchProfile, Profile: profile, Message: fmt.Sprintf("%d of %s do not fit", n, c[1])}
				}
				list = append(list, slices.Repeat([]string{c[1]}, n)...)
			}
			shape = strings.Join(list, " ")
		}
		named := groupGPUs.FindStringSubmatch(group)
		for i := range out {
			if named == nil && out[i] == "" || named != nil && slices.Contains(strings.Split(named[1], ", "), strconv.Itoa(i)) {
				out[i] = shape
			}
		}
	}
	return out, nil
}

// generatedMIG returns the instances of one GPU in a profile that needs no text.
func generatedMIG(profile string) (string, error) {
	what := strings.TrimPrefix(profile, "all-")
	name := strings.Replace(what, ".me", "+me", 1)
	switch {
	case profile == "all-disabled":
		return off, nil
	case profile == "all-enabled":
		return "", nil
	case profile == "all-balanced":
		return "3g.40gb 2g.20gb 1g.10gb 1g.10gb", nil
	case what != profile && fits[name] > 0:
		return strings.Join(slices.Repeat([]string{name}, fits[name]), " "), nil
	}
	return "", &agent.Refusal{Name: agent.NoSuchProfile, Profile: profile, Accepted: []string{"all-balanced", "all-disabled"}}
}

// planMIG returns the plan of a profile.
func (d *DCM) planMIG(text, profile string) (agent.Plan, error) {
	want, err := geometry(text, profile)
	if err != nil {
		return agent.Plan{}, err
	}
	if err := d.absent("PlanFor"); err != nil {
		return agent.Plan{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var plan agent.Plan
	for i := range want {
		if want[i] != d.mig[i] {
			plan.Steps = append(plan.Steps, fmt.Sprintf("GPU %d from %q to %q", i, d.mig[i], want[i]))
			plan.GPUs = append(plan.GPUs, Address(i))
		}
	}
	return plan, nil
}

// h100 returns the account of a host with H100 GPUs. The caller holds the lock.
func (d *DCM) h100() agent.Account {
	var a agent.Account
	a.Version, a.Taken = 1, d.version
	a.Profile.Effective, a.Health.InSync, a.Health.State = d.effective, !d.drifted, "healthy"
	if d.running {
		a.Health.State = "changing"
	}
	for i, shape := range d.mig {
		g := agent.GPU{Index: i, Address: Address(i), UUID: fmt.Sprintf("GPU-%d", i), Vendor: "nvidia", Driver: "nvidia"}
		switch g.Mode.Whole, g.Partitions = "MIG on, empty", 0; {
		case shape == off:
			g.Mode.Whole, g.Partitions = off, 1
		case shape != "":
			g.Mode.Slices, g.Mode.Whole = strings.Fields(shape), ""
			g.Partitions = len(g.Mode.Slices)
		}
		a.GPUs = append(a.GPUs, g)
	}
	return a
}
