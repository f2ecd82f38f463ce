package readiness

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

func TestState(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var s State
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	get := func(path string) string {
		t.Helper()
		r, err := http.Get("http://" + l.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%d %s", r.StatusCode, strings.TrimSpace(string(text)))
	}
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() {}, "503 starting"},
		{func() { s.Set("dcm does not answer") }, "503 dcm does not answer"},
		{func() { s.Set("") }, "200 ok"},
	} {
		step.do()
		if got := get(Path); got != step.want {
			t.Errorf("%q, want %q", got, step.want)
		}
	}
	if got := get("/other"); !strings.HasPrefix(got, "404 ") {
		t.Errorf("another path: %q", got)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
