package sequence

// Reasons, as in the events of AMD's manager.
const (
	Partitioned      = "SuccessfullyPartitioned"
	AlreadyExists    = "RequestedPartitionConfigAlreadyExists"
	InProgressReason = "PartitionInProgress"
	Retrying         = "PartitionRetrying"
	PartitionFailure = "PartitionFailure"
	NoSuchProfile    = "NonExistentProfile"
	InvalidProfile   = "InvalidProfileInfo"
	NoConfigMap      = "ConfigMapNotPresent"
	InvalidJSON      = "InvalidJSONInConfigMap"
)

func isFalse(reason, message string) Condition {
	return Condition{Status: "False", Reason: reason, Message: message}
}

// wait polls, since no watch covers the cause.
func wait(s Input, reason, message string) Step {
	return Step{Act: Wait{For: s.Times.Look}, Condition: isFalse(reason, message)}
}

// record records once that a target cannot be applied.
func record(s Input, target Target, why *Outcome) Step {
	condition := isFalse(why.Reason, why.Message)
	if last := s.Node.Last; last != nil && last.Target == target && last.State == Failure && last.Outcome != nil && *last.Outcome == *why && !why.Retry {
		return Step{Act: Rest{}, Condition: condition}
	}
	return Step{
		Act: Patch{
			Last:   &Last{Target: target, State: Failure, At: s.Now, Outcome: why},
			State:  Failure,
			Cordon: s.Node.Cordoned, Taint: s.Node.Tainted,
			Event: &Event{Warning: true, Reason: why.Reason, Note: why.Message, Key: s.ID},
		},
		Condition: condition,
	}
}

// succeed records that a target was applied.
func succeed(s Input, target Target, reason, note string) Step {
	return Step{
		Act: Patch{
			Last:   &Last{Target: target, State: Success, At: s.Now},
			State:  Success,
			Cordon: s.Node.Cordoned, Taint: s.Node.Tainted,
			Event: &Event{Reason: reason, Note: note, Key: s.ID},
		},
		Condition: Condition{Status: "True", Reason: "Applied", Message: "the GPUs match " + target.Profile},
	}
}
