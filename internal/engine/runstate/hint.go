package runstate

import "strings"

// Ends of a hint that hold only while the profile stays selected.
const (
	Again    = "; the profile stays selected, and dcm retries"
	Withdraw = "to withdraw the selection: "
)

// Withdrawal returns how to withdraw a selection, which continues with what selects it.
func Withdrawal(untilReboot bool, source string) string {
	how := "dcm use none, or dcm use PROFILE for another"
	if untilReboot {
		how = "dcm apply --clear, or dcm apply PROFILE for another"
	}
	return Withdraw + how + " (it is selected by " + source + ")"
}

// WithHint returns a message of two lines: the problem and its hint. Without a hint it
// returns the problem.
func WithHint(text, hint string) string {
	if hint == "" {
		return text
	}
	return text + "\nhint: " + hint
}

// Message returns the problem and its hint.
func (e *Error) Message() string { return WithHint(e.Text, e.Hint) }

// Withdrawn returns a hint without the part that holds only while the profile stays selected.
func Withdrawn(hint string) string {
	hint, _, _ = strings.Cut(hint, Again)
	hint, _, _ = strings.Cut(hint, Withdraw)
	return strings.TrimSuffix(hint, "; ")
}
