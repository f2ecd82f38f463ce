package runstate

import "strings"

// What a cure may end with, which is so while the selection stays.
const (
	Again    = "; dcm tries again by itself"
	Withdraw = "to withdraw the selection: dcm use none, or dcm use PROFILE for another"
)

// Withdrawn is a cure without what is so of a selection that stays.
func Withdrawn(cure string) string {
	cure, _, _ = strings.Cut(cure, Again)
	cure, _, _ = strings.Cut(cure, Withdraw)
	return strings.TrimSuffix(cure, "; ")
}
