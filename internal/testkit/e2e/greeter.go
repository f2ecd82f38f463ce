package e2e

import (
	"bufio"
	"net"
	"sync"
)

// greeter receives a connection from the container's agent at each boot. The container powers
// off when that connection is closed.
type greeter struct {
	boots    chan string // boot ids
	listener net.Listener

	mu     sync.Mutex
	closed bool
	conn   net.Conn
}

func greet(socket string) (*greeter, error) {
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	g := &greeter{boots: make(chan string, 1), listener: l}
	go g.serve()
	return g, nil
}

func (g *greeter) serve() {
	for {
		conn, err := g.listener.Accept()
		if err != nil {
			return // closed
		}
		boot, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || !g.hold(conn) {
			conn.Close()
			continue
		}
		g.boots <- boot
	}
}

// hold keeps the connection of this boot and closes the previous one.
func (g *greeter) hold(conn net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.conn != nil {
		g.conn.Close()
	}
	g.conn = conn
	return !g.closed
}

func (g *greeter) close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	if g.conn != nil {
		g.conn.Close()
	}
	return g.listener.Close()
}
