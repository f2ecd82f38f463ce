package agent

import (
	"encoding/json"
	"strings"
)

// Refusal is an answer that is an error of dcm's, not one of the connection.
type Refusal struct {
	Name     string   // InvalidConfiguration, NoSuchProfile, NotAllowed, Failed, or another
	Message  string   `json:"message"`
	Key      string   `json:"key"`
	Profile  string   `json:"profile"`
	Accepted []string `json:"accepted"`
	Reason   string   `json:"reason"`
	Cure     string   `json:"cure"`
	Undone   bool     `json:"undone"` // the GPUs are as they were
	Busy     bool     `json:"busy"`   // somebody uses them
}

// The errors that dcm answers with.
const (
	InvalidConfiguration = "InvalidConfiguration"
	NoSuchProfile        = "NoSuchProfile"
	NotAllowed           = "NotAllowed"
	Failed               = "Failed"
)

// Error is the reason and the cure in words.
func (r *Refusal) Error() string {
	switch r.Name {
	case InvalidConfiguration:
		return r.Message
	case NoSuchProfile:
		if r.Message != "" {
			return r.Message
		}
		return "there is no profile " + r.Profile + " for these GPUs; there are " + strings.Join(r.Accepted, ", ")
	case NotAllowed:
		return "an agent may not set " + r.Key + ": " + r.Message
	case Failed:
		return strings.TrimSuffix(r.Reason+"; "+r.Cure, "; ")
	}
	return "dcm answers " + r.Name + " " + r.Message
}

// Away tells whether dcm's daemon does not run, by the words with which dcm-agent.service
// begins the reason. Nothing was tried then.
func (r *Refusal) Away() bool {
	return r.Name == Failed && strings.HasPrefix(r.Reason, "dcm.service does not answer: ")
}

// refusal reads an error. One of varlink itself, for a method that is not there say,
// is a refusal like any other.
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
