package agent

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"dcm/internal/frontends/admission"
	"dcm/internal/frontends/varlink"
	"dcm/internal/frontends/varlink/varlinktest"
	"dcm/internal/testkit/testdeadline"
)

// fake is a host that returns configured answers.
type fake struct {
	err  error
	asks []string
}

func (f *fake) Account(context.Context) (json.RawMessage, error) {
	return json.RawMessage(`{"version":1}`), f.err
}

func (f *fake) Follow(_ context.Context, send func(json.RawMessage) error) error {
	for _, a := range []string{`{"version":1}`, `{"version":1,"more":2}`} {
		if err := send(json.RawMessage(a)); err != nil {
			return err
		}
	}
	return f.err
}

func (f *fake) PlanFor(_ context.Context, text, profile string) (Plan, error) {
	f.asks = append(f.asks, "plan", text, profile)
	return Plan{Steps: []string{"one"}}, f.err
}

func (f *fake) UseFor(_ context.Context, from varlink.Peer, text, profile string) (Outcome, error) {
	f.asks = append(f.asks, "use", text, profile)
	if from.PID != os.Getpid() {
		return Outcome{}, errors.New("of another process")
	}
	return Outcome{Result: "applied", Summary: "done"}, f.err
}

// client returns a client of a server of the host.
func client(t *testing.T, h Host) *varlinktest.Client {
	t.Helper()
	return limited(t, h, admission.New(admission.Limits{Calls: 100, AllCalls: 100}))
}

func TestMethods_Admission(t *testing.T) {
	h := &fake{}
	l := admission.New(admission.Limits{Calls: 1, AllCalls: 1})
	c := limited(t, h, l)
	leave, err := l.Enter(t.Context(), uint32(os.Getuid()), admission.Query) // another call of this user
	if err != nil {
		t.Fatal(err)
	}
	for method, parameters := range map[string]any{
		"Account": map[string]string{}, "PlanFor": map[string]string{"text": "", "profile": "x"}, "UseFor": map[string]string{"text": "", "profile": "x"},
	} {
		var failed *varlinktest.Error
		if err := c.Call(t.Context(), Name+"."+method, parameters, new(json.RawMessage)); !errors.As(err, &failed) || failed.Name != Name+".Failed" || !strings.Contains(failed.Error(), "too many") {
			t.Errorf("%s: %v", method, err)
		}
	}
	if len(h.asks) > 0 {
		t.Errorf("calls of the host: got %q, want none", h.asks)
	}
	leave()
	if err := c.Call(t.Context(), Name+".PlanFor", map[string]string{"text": "", "profile": "x"}, new(json.RawMessage)); err != nil {
		t.Errorf("after the end of the other call: %v", err)
	}
}

func limited(t *testing.T, h Host, l *admission.Limiter) *varlinktest.Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "socket")
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	s := &varlink.Server{Interfaces: []varlink.Interface{Interface(h, l)}, Log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, socket) }()
	c, err := varlinktest.Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestMethods_CallHost(t *testing.T) {
	h := new(fake)
	c := client(t, h)
	ctx, cancel := testdeadline.Context(t.Context(), time.Minute)
	defer cancel()
	wanted := map[string]string{"text": "x = 1", "profile": "p"}
	for _, tt := range []struct {
		method string
		in     any
		want   string
	}{
		{"Account", nil, `{"account":{"version":1}}`},
		{"PlanFor", wanted, `{"steps":["one"],"restarts":[],"holders":[],"reload":false,"warnings":[],"gpus":[]}`},
		{"UseFor", wanted, `{"result":"applied","summary":"done"}`},
	} {
		var got json.RawMessage
		if err := c.Call(ctx, Name+"."+tt.method, tt.in, &got); err != nil || string(got) != tt.want {
			t.Errorf("%s: %s, %v; want %s", tt.method, got, err, tt.want)
		}
	}
	if want := []string{"plan", "x = 1", "p", "use", "x = 1", "p"}; !slices.Equal(h.asks, want) {
		t.Errorf("calls of the host: got %q, want %q", h.asks, want)
	}
	var all []string
	if err := c.Follow(ctx, Name+".Account", nil, func(p json.RawMessage) error { all = append(all, string(p)); return nil }); err != nil {
		t.Error(err)
	}
	if want := []string{`{"account":{"version":1}}`, `{"account":{"version":1,"more":2}}`, ""}; !slices.Equal(all, want) {
		t.Errorf("accounts: got %q, want %q", all, want)
	}
}

func TestMethods_Errors(t *testing.T) {
	for want, err := range map[string]error{
		`InvalidConfiguration {"message":"x:1: y"}`:                         &ConfigurationError{errors.New("x:1: y")},
		`NoSuchProfile {"accepted":[],"message":"not there","profile":"p"}`: &ProfileError{Profile: "p", Err: errors.New("not there")},
		`NotAllowed {"key":"gpu.library","message":"no"}`:                   &AllowanceError{"gpu.library", errors.New("no")},
		`Failed {"reason":"r","hint":"c","undone":true,"busy":true}`:        &FailedError{"r", "c", true, true},
		`Failed {"reason":"else","hint":"","undone":false,"busy":false}`:    errors.New("else"),
	} {
		c := client(t, &fake{err: err})
		for _, method := range []string{"PlanFor", "UseFor"} {
			got := c.Call(t.Context(), Name+"."+method, map[string]string{"text": "", "profile": "p"}, nil)
			if got == nil || got.Error() != Name+"."+want {
				t.Errorf("%s: %v\nwant %s", method, got, want)
			}
		}
	}
}

// The description names exactly the methods that exist.
func TestDescription(t *testing.T) {
	for name := range Interface(nil, nil).Methods {
		if !strings.Contains(description, "\nmethod "+name+"(") {
			t.Errorf("the description lacks %s", name)
		}
	}
	if got, want := strings.Count(description, "\nmethod "), len(Interface(nil, nil).Methods); got != want {
		t.Errorf("methods: %d are described, %d exist", got, want)
	}
	if _, err := exec.LookPath("varlinkctl"); err != nil {
		t.Skip("varlinkctl is not installed")
	}
	if out, err := exec.Command("varlinkctl", "validate-idl", "org.deviceconfig.Agent1.varlink").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
