package status

import (
	"fmt"
	"strings"
)

// Unconfined is a unit that can open GPUs outside of its partitions, or that systemd does not
// confine to them.
type Unconfined struct {
	Unit string       `json:"unit"`
	Why  List[string] `json:"why"` // each difference
	Hint string       `json:"hint"`
}

// Text names the unit and the difference.
func (u Unconfined) Text() string {
	return fmt.Sprintf("%s is not confined to its partitions: %s", u.Unit, strings.Join(u.Why, "; "))
}

// unreadable returns a unit whose drop-in cannot be written, because its reservation is
// unknown.
func unreadable(unit string) Unconfined {
	return Unconfined{Unit: unit, Why: List[string]{"its reservation cannot be read, so it starts with all devices"},
		Hint: "dcm check shows what is wrong; repair the file, and restart the unit"}
}

// Confinement is how systemd confines units to their partitions.
type Confinement struct {
	Unconfined []Unconfined
	Lost       *Problem // systemd has not loaded dcm's drop-ins; nil if it has
}

// confinement adds what systemd has loaded.
func (a *Account) confinement(c Confinement) {
	a.Unconfined = append(a.Unconfined, c.Unconfined...)
	if c.Lost != nil {
		a.Problems = append(a.Problems, *c.Lost)
	}
}

// ConfinementKnown reports whether systemd was queried and answered.
func (a Account) ConfinementKnown() bool { return !a.hidden(partConfined) }

// unconfined judges the units that hold or need partitions.
func (j *judge) unconfined() {
	for _, u := range j.a.Unconfined {
		j.addProblem(Open, u.Text(), u.Hint)
	}
	switch n := len(j.a.Unconfined); {
	case n == 1:
		j.caveats = append(j.caveats, "a unit is not confined to its partitions")
	case n > 1:
		j.caveats = append(j.caveats, fmt.Sprintf("%d units are not confined to their partitions", n))
	}
}
