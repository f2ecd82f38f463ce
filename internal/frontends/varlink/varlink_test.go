package varlink

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/frontends/varlink/varlinktest"
	"dcm/internal/testkit/testdeadline"
)

// echo returns an interface with a method of each kind.
func echo(waits chan struct{}) Interface {
	return Interface{Name: "a.b", Description: "interface a.b\n", Methods: map[string]Method{
		"Say": func(_ context.Context, from Peer, p Parameters, _ func(any) error) (any, error) {
			var text string
			if err := p.Into(map[string]any{"text": &text}); err != nil {
				return nil, err
			}
			return map[string]any{"text": text, "uid": from.UID}, nil
		},
		"Count": func(_ context.Context, _ Peer, _ Parameters, send func(any) error) (any, error) {
			if send == nil {
				return nil, ExpectedMore()
			}
			for n := range 3 {
				if err := send(map[string]int{"n": n}); err != nil {
					return nil, err
				}
			}
			return map[string]int{"n": 3}, nil
		},
		"Wait": func(ctx context.Context, _ Peer, _ Parameters, _ func(any) error) (any, error) {
			waits <- struct{}{}
			<-ctx.Done()
			waits <- struct{}{}
			return nil, ctx.Err()
		},
	}}
}

// served starts a server on a new socket. end stops it.
func served(t *testing.T, limits Limits, waits chan struct{}) (path string, end func() error) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "socket")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Info: Info{Vendor: "v", Product: "p", Version: "1"}, Interfaces: []Interface{echo(waits)}, Limits: limits, Log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	end = func() error { cancel(); return <-done }
	t.Cleanup(cancel)
	return path, end
}

// raw sends bytes, closes the sending side and returns all replies.
func raw(t *testing.T, path, text string) string {
	t.Helper()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// A server that refuses a message may close the connection before it has read all of it.
	_, _ = io.WriteString(conn, text)
	_ = conn.CloseWrite()
	out, _ := io.ReadAll(conn)
	return strings.ReplaceAll(string(out), "\x00", "|")
}

func TestServer_Replies(t *testing.T) {
	path, _ := served(t, Limits{}, nil)
	uid, _ := json.Marshal(os.Getuid())
	const failing = `{"parameters":`
	for name, tt := range map[string]struct{ in, want string }{
		"a call":                             {`{"method":"a.b.Say","parameters":{"text":"x"}}`, `{"parameters":{"text":"x","uid":` + string(uid) + `}}|`},
		"one reply to a call with more":      {`{"method":"a.b.Say","parameters":{"text":"x"},"more":true}`, `{"parameters":{"text":"x","uid":` + string(uid) + `}}|`},
		"several":                            {`{"method":"a.b.Count","more":true}`, `{"parameters":{"n":0},"continues":true}|{"parameters":{"n":1},"continues":true}|{"parameters":{"n":2},"continues":true}|{"parameters":{"n":3}}|`},
		"several replies, call without more": {`{"method":"a.b.Count"}`, failing + `{},"error":"org.varlink.service.ExpectedMore"}|`},
		"none":                               {`{"method":"a.b.Say","parameters":{"text":"x"},"oneway":true}`, ""},
		"oneway call with an error":          {`{"method":"a.b.Nay","oneway":true}`, ""},
		"no such interface":                  {`{"method":"a.c.Say"}`, failing + `{"interface":"a.c"},"error":"org.varlink.service.InterfaceNotFound"}|`},
		"no such method":                     {`{"method":"a.b.say"}`, failing + `{"method":"a.b.say"},"error":"org.varlink.service.MethodNotFound"}|`},
		"a missing parameter":                {`{"method":"a.b.Say"}`, failing + `{"parameter":"text"},"error":"org.varlink.service.InvalidParameter"}|`},
		"a null parameter":                   {`{"method":"a.b.Say","parameters":{"text":null}}`, failing + `{"parameter":"text"},"error":"org.varlink.service.InvalidParameter"}|`},
		"a parameter of another type":        {`{"method":"a.b.Say","parameters":{"text":1}}`, failing + `{"parameter":"text"},"error":"org.varlink.service.InvalidParameter"}|`},
		"an unknown parameter":               {`{"method":"a.b.Say","parameters":{"text":"","Text":""}}`, failing + `{"parameter":"Text"},"error":"org.varlink.service.InvalidParameter"}|`},
		"an upgrade":                         {`{"method":"a.b.Say","upgrade":true}`, failing + `{"parameter":"upgrade"},"error":"org.varlink.service.InvalidParameter"}|`},
		"two calls": {`{"method":"a.b.Nay","oneway":true}` + "\x00" + `{"method":"a.b.Say","parameters":{"text":"y"}}`,
			`{"parameters":{"text":"y","uid":` + string(uid) + `}}|`},
		"info": {`{"method":"org.varlink.service.GetInfo"}`, `{"parameters":{"vendor":"v","product":"p","version":"1","url":"","interfaces":["org.varlink.service","a.b"]}}|`},
		"a description": {`{"method":"org.varlink.service.GetInterfaceDescription","parameters":{"interface":"a.b"}}`,
			`{"parameters":{"description":"interface a.b\n"}}|`},
		"of nothing": {`{"method":"org.varlink.service.GetInterfaceDescription","parameters":{"interface":"a"}}`,
			failing + `{"interface":"a"},"error":"org.varlink.service.InterfaceNotFound"}|`},
		"no method":                     {`{"parameters":{}}`, ""},
		"a method without an interface": {`{"method":"x"}`, ""},
		"an array":                      {`[]`, ""},
		"null":                          {`null`, ""},
		"more and oneway":               {`{"method":"a.b.Say","more":true,"oneway":true}`, ""},
		"another case":                  {`{"Method":"a.b.Say"}`, ""},
		"no JSON":                       {"\xff", ""},
		"nothing":                       {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := raw(t, path, tt.in+"\x00"); got != tt.want {
				t.Errorf("reply: got %s\nwant     %s", got, tt.want)
			}
		})
	}
}

func TestServer_IncompleteMessage(t *testing.T) {
	path, _ := served(t, Limits{Message: 100}, nil)
	if got := raw(t, path, `{"method":"a.b.Say","parameters":{"text":"`+strings.Repeat("x", 1000)+`"}}`+"\x00"); got != "" {
		t.Errorf("reply: got %s, want none", got)
	}
	if got := raw(t, path, `{"method":"a.b.Say"`); got != "" { // incomplete
		t.Errorf("reply: got %s, want none", got)
	}
}

func TestServer_ClientDisconnects(t *testing.T) {
	waits := make(chan struct{})
	path, end := served(t, Limits{}, waits)
	ctx, cancel := testdeadline.Context(t.Context(), time.Minute)
	defer cancel()
	c, err := varlinktest.Dial(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() { failed <- c.Call(ctx, "a.b.Wait", nil, nil) }()
	<-waits
	c.Close()
	<-failed
	select {
	case <-waits:
		t.Error("the call ended when its client disconnected")
	default:
	}
	stopped := make(chan error, 1)
	go func() { stopped <- end() }()
	<-waits // the call ends with the server
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

func TestServer_MoreEndsWithClient(t *testing.T) {
	waits := make(chan struct{})
	path, _ := served(t, Limits{}, waits)
	ctx, cancel := testdeadline.Context(t.Context(), time.Minute)
	defer cancel()
	c, err := varlinktest.Dial(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = c.Follow(ctx, "a.b.Wait", nil, func(json.RawMessage) error { return nil }) }()
	<-waits
	c.Close()
	<-waits
}

func TestClient(t *testing.T) {
	path, end := served(t, Limits{Connections: 1}, nil)
	ctx, cancel := testdeadline.Context(t.Context(), time.Minute)
	defer cancel()
	c, err := varlinktest.Dial(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Text string }
	if err := c.Call(ctx, "a.b.Say", map[string]string{"text": "x"}, &got); err != nil || got.Text != "x" {
		t.Errorf("%q, %v", got.Text, err)
	}
	var all []string
	if err := c.Follow(ctx, "a.b.Count", nil, func(p json.RawMessage) error { all = append(all, string(p)); return nil }); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{`{"n":0}`, `{"n":1}`, `{"n":2}`, `{"n":3}`}, all); diff != "" {
		t.Errorf("replies (-want +got):\n%s", diff)
	}
	var remote *varlinktest.Error
	if err := c.Call(ctx, "a.b.Nay", nil, nil); !errors.As(err, &remote) || remote.Name != "org.varlink.service.MethodNotFound" {
		t.Errorf("%v", err)
	}
	// The server serves no second connection until the first one is closed.
	second, err := varlinktest.Dial(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() { answered <- second.Call(ctx, "a.b.Say", map[string]string{"text": "y"}, &got) }()
	c.Close()
	if err := <-answered; err != nil {
		t.Error(err)
	}
	second.Close()
	if err := end(); err != nil {
		t.Error(err)
	}
}

func TestServer_EndsWhenIdle(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Limits: Limits{IdleTimeout: 1}, Log: slog.New(slog.DiscardHandler)}
	if err := s.Serve(t.Context(), l); err != nil {
		t.Error(err)
	}
}

func TestServer_SilentConnection(t *testing.T) {
	path, _ := served(t, Limits{SilenceTimeout: 1}, nil)
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("read: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{`{"method":"a.b","parameters":{"x":1},"more":true}`, `{"method":"a"}`, `[]`, `{`, "\xff", `{"method":1}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := parse(text)
		if err != nil {
			return
		}
		if intf, name := split(c.Method); intf+"."+name != c.Method {
			t.Errorf("%q is split into %q and %q", c.Method, intf, name)
		}
		again, err := encode(map[string]any{"method": c.Method, "parameters": c.Parameters, "more": c.More, "oneway": c.Oneway, "upgrade": c.upgrade})
		if err != nil || bytes.IndexByte(again, 0) != len(again)-1 {
			t.Fatalf("%q, %v", again, err)
		}
		if back, err := parse(again[:len(again)-1]); err != nil || back.Method != c.Method || len(back.Parameters) != len(c.Parameters) {
			t.Errorf("%q: %v", again, err)
		}
	})
}
