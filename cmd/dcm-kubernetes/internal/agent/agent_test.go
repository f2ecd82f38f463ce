package agent_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"dcm/cmd/dcm-kubernetes/internal/agent"
	"dcm/cmd/dcm-kubernetes/internal/standin"
)

const text = `{"gpu-config-profiles": {"small": {"profiles": [{"computePartition": "CPX", "memoryPartition": "NPS4"}]}}}`

// serve answers calls on a socket.
func serve(t *testing.T, answer func(net.Listener)) agent.Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "socket")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go answer(l)
	return agent.Client{Socket: socket}
}

// once answers only the first call, with a text.
func once(text string) func(net.Listener) {
	return func(l net.Listener) {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		if _, err := bufio.NewReader(conn).ReadBytes(0); err == nil {
			io.WriteString(conn, text)
		}
	}
}

func TestCalls(t *testing.T) {
	c := serve(t, standin.NewDCM().Serve)
	plan, err := c.PlanFor(t.Context(), text, "small")
	if err != nil || len(plan.Steps) != 8 || !plan.Reload {
		t.Errorf("the plan is %+v, %v", plan, err)
	}
	used, err := c.UseFor(t.Context(), text, "small")
	if err != nil || used.Result != "applied" {
		t.Errorf("used: %+v, %v", used, err)
	}
	now, err := c.Account(t.Context())
	if err != nil || now.Profile.Effective != "small" || now.Partitions()["cpx_nps4"] != 64 {
		t.Errorf("the account is %+v, %v", now, err)
	}
}

func TestNames(t *testing.T) {
	a := agent.Account{GPUs: []agent.GPU{{Address: "0000:0A:00.0", UUID: "GPU-A", Vendor: "nvidia"}, {Index: 1, Address: "b", Vendor: "nvidia"}, {Address: "c", Vendor: "amd"}, {Index: -1, Address: "d", Vendor: "nvidia"}}}
	for _, test := range []struct {
		name  string
		given []string
		want  string
	}{
		{"one GPU", []string{"0000:0A:00.0"}, "[0000:0a:00.0 gpu-a]"},
		{"without UUID", []string{"b"}, "[b]"},
		{"all GPUs of the vendor", []string{"0000:0A:00.0", "b"}, "[]"},
		{"one of another vendor", []string{"b", "c"}, "[]"},
		{"none, from an older dcm", nil, "[]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := fmt.Sprint(a.Names("nvidia", test.given)); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

func TestFollow(t *testing.T) {
	dcm := standin.NewDCM()
	c := serve(t, dcm.Serve)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := 0
	err := c.Follow(ctx, func(a agent.Account) {
		if seen++; seen == 1 {
			go dcm.UseFor(ctx, text, "small")
		}
		if a.Partitions()["cpx_nps4"] == 64 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || seen < 2 {
		t.Errorf("%d accounts, %v", seen, err)
	}
}

func TestRefusal_ReasonAndHint(t *testing.T) {
	tests := map[string]struct{ reply, want string }{
		"configuration": {`{"error":"org.deviceconfig.Agent1.InvalidConfiguration","parameters":{"message":"config.json:3: no"}}`, "config.json:3: no"},
		"profile":       {`{"error":"org.deviceconfig.Agent1.NoSuchProfile","parameters":{"profile":"x","accepted":["a","b"]}}`, "profile x: not defined for these GPUs; accepted: a, b"},
		"key":           {`{"error":"org.deviceconfig.Agent1.NotAllowed","parameters":{"key":"smi","message":"names a program"}}`, "an agent may not set smi: names a program"},
		"run":           {`{"error":"org.deviceconfig.Agent1.Failed","parameters":{"reason":"busy","hint":"end it","undone":true,"busy":true}}`, "busy; end it"},
		"varlink":       {`{"error":"org.varlink.service.MethodNotFound","parameters":{"method":"x"}}`, "dcm returned org.varlink.service.MethodNotFound "},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := serve(t, once(tt.reply+"\x00")).UseFor(t.Context(), "", "x")
			var refused *agent.Refusal
			if !errors.As(err, &refused) || err.Error() != tt.want {
				t.Errorf("error is %q, want %q", err, tt.want)
			}
		})
	}
}

func TestBrokenReply_IsError(t *testing.T) {
	for name, reply := range map[string]string{"cut off": `{"parameters":{}`, "nothing": "", "no JSON": "}\x00", "other form": `{"parameters":[]}` + "\x00", "endless": strings.Repeat("x", 17<<20)} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, once(reply))
			if _, err := c.PlanFor(t.Context(), "", ""); err == nil || !strings.HasPrefix(err.Error(), "cannot call PlanFor on "+c.Socket) {
				t.Errorf("error is %v", err)
			}
		})
	}
}
