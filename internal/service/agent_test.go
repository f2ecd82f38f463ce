package service

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"testing"

	"dcm/internal/agent"
	"dcm/internal/config"
	"dcm/internal/host"
)

func TestOnlyWhatIsNewIsTold(t *testing.T) {
	same := string(contentOf(json.RawMessage(`{"taken":"1","gpus":[1]}`)))
	if got := string(contentOf(json.RawMessage(`{"gpus":[1],"taken":"2"}`))); got != same {
		t.Errorf("%s is another account than %s", got, same)
	}
	if got := string(contentOf(json.RawMessage(`{"gpus":[2],"taken":"1"}`))); got == same {
		t.Errorf("%s is the same account as %s", got, same)
	}
}

func TestAnErrorOfTheConfigurationIsOneOfAnAgents(t *testing.T) {
	var profile *agent.ProfileError
	if err := refused(&config.NoProfileError{Profile: "x", Accepted: []string{"y"}}); !errors.As(err, &profile) || profile.Profile != "x" || len(profile.Accepted) != 1 {
		t.Errorf("%#v", err)
	}
	var allowance *agent.AllowanceError
	if err := refused(&config.NotAllowedError{Key: "gpu.library"}); !errors.As(err, &allowance) || allowance.Key != "gpu.library" {
		t.Errorf("%#v", err)
	}
	var problems *agent.ConfigurationError
	if err := refused(&config.Errors{}); !errors.As(err, &problems) {
		t.Errorf("%#v", err)
	}
	var failed *agent.FailedError
	if err := refused(fs.ErrPermission); !errors.As(err, &failed) || !failed.Undone {
		t.Errorf("%#v", err)
	}
}

func TestWithoutASocketNothingIsAnswered(t *testing.T) {
	t.Setenv("LISTEN_PID", "1")
	t.Setenv("LISTEN_FDS", "1")
	if err := Agent(t.Context(), &host.Host{Root: t.TempDir()}, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("it answers on what was handed to another process")
	}
}

// Of another tree there is no systemd to ask.
func TestTheGateIsThisHosts(t *testing.T) {
	g := &gate{host: &host.Host{Root: t.TempDir()}, log: slog.New(slog.DiscardHandler)}
	g.set(context.Background(), true)
	if g.open {
		t.Error("it is said to be open")
	}
}
