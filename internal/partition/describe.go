package partition

import "fmt"

// Describe returns the profile that the GPUs have now: one mode for the node
// where they agree, groups of neighbours where they do not.
func Describe(name string, have []GPU) (Profile, error) {
	gpus := inOrder(have)
	if len(gpus) == 0 {
		return Profile{}, fmt.Errorf("there are no partitionable GPUs to describe")
	}
	p := Profile{Name: name, Memory: gpus[0].Memory}
	for _, g := range gpus {
		if g.Memory != p.Memory {
			return Profile{}, fmt.Errorf("%s has %s and %s has %s: a profile has one memory mode for the node", gpus[0].Address, p.Memory, g.Address, g.Memory)
		}
		if n := len(p.Groups); n > 0 && p.Groups[n-1].Compute == g.Compute {
			p.Groups[n-1].Count++
		} else {
			p.Groups = append(p.Groups, Group{Compute: g.Compute, Count: 1})
		}
	}
	if len(p.Groups) == 1 {
		p.Compute, p.Groups = gpus[0].Compute, nil
	}
	return p, nil
}
