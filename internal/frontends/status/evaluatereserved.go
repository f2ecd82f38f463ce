package status

import (
	"fmt"
	"strings"
)

// unconfined evaluates units that can open GPUs outside of their partitions.
func (j *evaluator) unconfined() {
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

// reserved evaluates the results of the reservations and the guard.
func (j *evaluator) reserved() {
	if j.a.Running() {
		return
	}
	n, exclusive := 0, false
	for _, r := range j.a.Reserved {
		if r.Wants > 0 && len(r.Partitions) == 0 {
			j.addProblem(Unmet, fmt.Sprintf("reservation %s has no partitions: %s", r.Name, r.Reason), "reserve less, or select a profile with more partitions")
			n++
		}
		exclusive = exclusive || r.Exclusive && len(r.Partitions) > 0
	}
	switch {
	case n == 1:
		j.caveats = append(j.caveats, "a reservation has no partitions")
	case n > 1:
		j.caveats = append(j.caveats, fmt.Sprintf("%d reservations have no partitions", n))
	}
	switch {
	case exclusive && j.a.Guard.Why != "" && j.a.Guard.Unconfined:
		j.addProblem(Shared, "exclusive reservations are neither confined nor exclusive, and device lists of units have no effect here: "+j.a.Guard.Why, guardHint(j.a.Guard.Why))
		j.caveats = append(j.caveats, "reservations are neither confined nor exclusive")
	case exclusive && j.a.Guard.Why != "":
		j.addProblem(Shared, "exclusive reservations are confined, but not exclusive: "+j.a.Guard.Why, guardHint(j.a.Guard.Why))
		j.caveats = append(j.caveats, "reservations are confined, not exclusive")
	case len(j.a.Guard.Open) > 0:
		j.addProblem(Shared, "exclusive partitions are confined, but not exclusive: "+strings.Join(j.a.Guard.Open, ", "), "end these processes, or have them close the device")
		j.caveats = append(j.caveats, "exclusive partitions are confined, not exclusive")
	}
}

// guardHint returns the hint for a guard that is not loaded.
func guardHint(why string) string {
	switch {
	case strings.HasPrefix(why, "an administrator"):
		return "dcm guard on"
	case strings.HasPrefix(why, "this kernel"):
		return "see dcm-partitions(7)"
	}
	return "dcm guard status; journalctl -u dcm-guard"
}
