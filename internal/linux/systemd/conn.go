package systemd

import "context"

// Conn is a connection to PID 1. It holds a socket and wakes up for signals, so close it after
// each operation. Its parts share the socket.
type Conn struct {
	Manager      Manager
	Units        Units
	Dependencies Dependencies
	Jobs         Jobs
	Transients   Transients
	Pins         Pins
	Cgroups      Cgroups
	Processes    Processes

	transport *transport
}

// Dial connects for a short operation: for root by the private socket, otherwise by the
// system bus.
func Dial(ctx context.Context) (*Conn, error) {
	return dialAny(ctx, byPrivate(PrivateSocket), byBus(SystemBus))
}

// DialToWait connects to wait for changes of single units, possibly for days: by the system
// bus, which filters signals, otherwise by the private socket.
func DialToWait(ctx context.Context) (*Conn, error) { return DialAt(ctx, SystemBus, PrivateSocket) }

// DialAt connects to PID 1 at these D-Bus addresses. Either may be "".
func DialAt(ctx context.Context, bus, private string) (*Conn, error) {
	return dialAny(ctx, byBus(bus), byPrivate(private))
}

func dialAny(ctx context.Context, endpoints ...endpoint) (*Conn, error) {
	t, err := connect(ctx, endpoints...)
	if err != nil {
		return nil, err
	}
	return &Conn{
		Manager: Manager{t}, Units: Units{t}, Dependencies: Dependencies{t}, Jobs: Jobs{t},
		Transients: Transients{t}, Pins: Pins{t}, Cgroups: Cgroups{t}, Processes: Processes{t},
		transport: t,
	}, nil
}

// Close closes the connection. Calls that wait on it fail.
func (c *Conn) Close() error { return c.transport.close() }
