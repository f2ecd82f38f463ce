package remote

import (
	"encoding/json"
	"io"
	"net"
	"sync"
)

// stream sends a command's two outputs over one connection.
type stream struct {
	mu  sync.Mutex
	enc encoder
}

type encoder interface{ Encode(any) error }

func newStream(conn net.Conn) *stream { return &stream{enc: json.NewEncoder(conn)} }

type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

func (s *stream) out() io.Writer {
	return writer(func(p []byte) (int, error) { return len(p), s.send(frame{Out: p}) })
}

func (s *stream) err() io.Writer {
	return writer(func(p []byte) (int, error) { return len(p), s.send(frame{Err: p}) })
}

func (s *stream) send(f frame) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.enc.Encode(f)
}

// answer sends the last frame, unless the caller has disconnected.
func answer(conn net.Conn, f frame) { _ = json.NewEncoder(conn).Encode(f) }
