package agent

import (
	"encoding/json"
	"strings"
)

// Refusal is an error that dcm replied, not an error of the connection.
type Refusal struct {
	Name     string   // InvalidConfiguration, NoSuchProfile, NotAllowed, Failed, or another
	Message  string   `json:"message"`
	Key      string   `json:"key"`
	Profile  string   `json:"profile"`
	Accepted []string `json:"accepted"`
	Reason   string   `json:"reason"`
	Hint     string   `json:"hint"`
	Undone   bool     `json:"undone"` // the GPUs are unchanged
	Busy     bool     `json:"busy"`   // a process uses the GPUs
}

// Errors of dcm.
const (
	InvalidConfiguration = "InvalidConfiguration"
	NoSuchProfile        = "NoSuchProfile"
	NotAllowed           = "NotAllowed"
	Failed               = "Failed"
)

// Error returns the reason and the hint.
func (r *Refusal) Error() string {
	switch r.Name {
	case InvalidConfiguration:
		return r.Message
	case NoSuchProfile:
		if r.Message != "" {
			return r.Message
		}
		return "profile " + r.Profile + ": not defined for these GPUs; accepted: " + strings.Join(r.Accepted, ", ")
	case NotAllowed:
		return "an agent may not set " + r.Key + ": " + r.Message
	case Failed:
		return strings.TrimSuffix(r.Reason+"; "+r.Hint, "; ")
	}
	return "dcm returned " + r.Name + " " + r.Message
}

// Away reports whether dcm's daemon does not run, from the first words of the reason of
// dcm-agent.service. Nothing was tried then.
func (r *Refusal) Away() bool {
	return r.Name == Failed && strings.HasPrefix(r.Reason, "dcm.service does not answer: ")
}

// refusal parses an error reply. An error of varlink itself, for example for an unknown
// method, is a Refusal too.
func refusal(name string, parameters []byte) error {
	r := &Refusal{}
	if len(parameters) > 0 {
		if err := json.Unmarshal(parameters, r); err != nil {
			return err
		}
	}
	r.Name = strings.TrimPrefix(name, iface+".")
	return r
}
