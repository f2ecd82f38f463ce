package config

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"dcm/internal/engine/config/rule"
	"dcm/internal/engine/config/source"
	"dcm/internal/engine/hours"
	"dcm/internal/gpu/partition"
)

// UserReservation keeps GPUs for the leases of one user, at some hours of the week.
type UserReservation struct {
	User   string // name or number
	GPUs   []partition.Selector
	Hours  hours.Hours
	Source string // file:line
}

// format returns the reservation as a table of a dcm.toml.
func (r UserReservation) format() string {
	text := fmt.Sprintf("[[reservation]]\nuser = %s\ngpus = %s\n", source.Quote(r.User), source.Array(r.GPUs, rule.FormatSelector))
	if when := r.Hours.String(); when != "" {
		text += "when = " + source.Quote(when) + "\n"
	}
	return text
}

// isForUser reports whether a table of a reservation is one for a user.
func isForUser(n *source.Node) bool { return n.At("user") != nil }

// maxUserName limits the length of a user's name, as LOGIN_NAME_MAX of Linux does.
const maxUserName = 256

func userName(name string) *source.Fault {
	unfit := func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) || strings.ContainsRune(":/,", r) }
	if name == "" || len(name) > maxUserName || strings.ContainsFunc(name, unfit) {
		return &source.Fault{Text: "not a user's name", Accepted: `a name such as "alice", or a number such as "1000"`}
	}
	return nil
}

func reservedHours(text string) *source.Fault {
	if _, ok := hours.Parse(text); !ok {
		return &source.Fault{Text: "not hours of a week", Accepted: hours.Accepted}
	}
	return nil
}

// forUser checks the keys of a reservation for a user.
func forUser(c *rule.Checker, key string, n *source.Node) {
	for _, other := range []string{"unit", "name", "partitions", "place", "exclusive", "share", "vendor", "mode", "make"} {
		if at := n.At(other); at != nil {
			c.Fail(at, source.DottedKey(key, other), &source.Fault{Text: "cannot be combined with user", Accepted: "user, gpus and when"})
		}
	}
	if n.At("gpus") == nil {
		c.Fail(n, key, &source.Fault{Text: "gpus is missing", Accepted: "gpus = [0, 2]"})
	}
}

// readUserReservations reads the checked reservations that are for users.
func readUserReservations(n *source.Node) []UserReservation {
	var out []UserReservation
	for _, item := range n.Items() {
		if !isForUser(item) {
			continue
		}
		r := UserReservation{GPUs: rule.ReadSelectors(item.At("gpus")), Source: item.Place()}
		rule.Read(item.At("user"), &r.User)
		when, _ := item.At("when").Text()
		r.Hours, _ = hours.Parse(when) // checked before; always, without the key
		out = append(out, r)
	}
	return out
}

// forUnits returns the reservations that are not for users.
func forUnits(n *source.Node) []*source.Node {
	return slices.DeleteFunc(slices.Clone(n.Items()), isForUser)
}
