package placement

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/sorting"
	"dcm/internal/text"
)

// Reservation is one of the reservations that [Assign] meets together.
type Reservation struct {
	Name string
	Want          // partitions, not whole GPUs
	Now  []string // names of its present partitions
}

// TogetherError is returned if several reservations cannot all be met.
type TogetherError struct {
	Reservations []Reservation
	Free         int
}

func (e *TogetherError) Error() string {
	sum := 0
	each := make([]string, len(e.Reservations))
	for i, r := range e.Reservations {
		sum += r.Partitions
		each[i] = fmt.Sprintf("%s %d", r.Name, r.Partitions)
	}
	text := fmt.Sprintf("%s reserved (%s), and there %s %d", text.Count(sum, "partition"), strings.Join(each, ", "), are(e.Free), e.Free)
	if sum <= e.Free {
		text += ", but not so many on the GPUs" + kinds(e.Reservations) + " that are asked for"
	}
	return text
}

// kinds returns a part of the message of [TogetherError] if a reservation requests kinds of partitions.
func kinds(list []Reservation) string {
	if slices.ContainsFunc(list, func(r Reservation) bool { return r.Kinds != nil }) {
		return " and of the kinds"
	}
	return ""
}

// Assign meets all reservations or none. A reservation keeps its present partitions if they still
// exist and the other reservations can then be met. The others choose in this order: those with the
// fewest partitions to choose from first, and of these the largest first. Each gets the best choice
// that leaves enough partitions for the reservations after it. The order does not decide whether all
// can be met.
func Assign(node []runstate.Part, taken map[string]bool, list []Reservation) (map[string]Choice, error) {
	a := assignment{node: node, taken: maps.Clone(taken), out: make(map[string]Choice)}
	if a.taken == nil {
		a.taken = make(map[string]bool)
	}
	todo := slices.Clone(list)
	if a.flow(todo) == nil {
		return nil, &TogetherError{list, len(a.free())}
	}
	todo = slices.DeleteFunc(todo, func(r Reservation) bool {
		return a.keep(r, slices.DeleteFunc(slices.Clone(list), func(o Reservation) bool {
			_, done := a.out[o.Name]
			return done || o.Name == r.Name
		}))
	})
	sorting.By(todo, func(x, y Reservation) int {
		return cmp.Or(cmp.Compare(a.room(x), a.room(y)), cmp.Compare(y.Partitions, x.Partitions))
	})
	for i, r := range todo {
		if err := a.place(r, todo[i+1:]); err != nil {
			return nil, err
		}
	}
	return a.out, nil
}

// assignment is the state of [Assign].
type assignment struct {
	node  []runstate.Part
	taken map[string]bool
	out   map[string]Choice
}

func (a *assignment) free() []runstate.Part {
	return slices.DeleteFunc(slices.Clone(a.node), func(p runstate.Part) bool { return a.taken[p.Name] })
}

// room returns the number of partitions that r can choose from, taken ones included.
func (a *assignment) room(r Reservation) int { return len(among(a.node, r.Want)) }

// keep assigns the present partitions of r to r again. It returns false if they no longer fulfil the
// request, or if the others could not be met then.
func (a *assignment) keep(r Reservation, others []Reservation) bool {
	var has []runstate.Part
	for _, p := range among(a.free(), r.Want) {
		if slices.Contains(r.Now, p.Name) {
			has = append(has, p)
		}
	}
	if len(has) != r.Partitions || len(r.Now) != r.Partitions {
		return false
	}
	free := a.free()
	return a.give(r, Choice{has, Sum(has), reason(has, free, r.Want)}, others)
}

// give assigns a choice to r. It returns false, and assigns nothing, if the others could not be met then.
func (a *assignment) give(r Reservation, c Choice, others []Reservation) bool {
	for _, p := range c.Partitions {
		a.taken[p.Name] = true
	}
	if a.flow(others) == nil {
		for _, p := range c.Partitions {
			delete(a.taken, p.Name)
		}
		return false
	}
	a.out[r.Name] = c
	return true
}

// place chooses partitions for r and assigns them.
func (a *assignment) place(r Reservation, others []Reservation) error {
	c, err := Choose(a.node, a.taken, r.Want)
	if err != nil {
		return err
	}
	if a.give(r, c, others) {
		return nil
	}
	// The best choice for r takes partitions that another reservation needs. So r gets from each GPU
	// as many partitions of each kind as in one solution for all.
	free := a.free()
	var picked []runstate.Part
	for from, n := range a.flow(append([]Reservation{r}, others...))[0] {
		one := Want{Partitions: n, Place: r.Place, Among: []partition.Address{from.gpu}, Kinds: []string{from.kind}}
		c, err := Choose(a.node, a.taken, one)
		if err != nil {
			return err
		}
		picked = append(picked, c.Partitions...)
	}
	sorting.By(picked, func(x, y runstate.Part) int {
		return cmp.Or(x.GPU.Compare(y.GPU), cmp.Compare(x.Index, y.Index))
	})
	a.give(r, Choice{picked, Sum(picked), reason(picked, free, r.Want)}, others)
	return nil
}
