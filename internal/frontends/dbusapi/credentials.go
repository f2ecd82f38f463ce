package dbusapi

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"

	"github.com/godbus/dbus/v5"

	"dcm/internal/linux/caller"
	"dcm/internal/linux/dbusconn"
)

// credentialsCache caches credentials by the unique name of the connection. A bus never gives
// a unique name twice, so entries stay valid while dcm's own connection lives. A full cache
// is emptied.
type credentialsCache struct {
	mu    sync.Mutex
	conn  *dbus.Conn // the bus that the names are from
	known map[string]credentials
}

// credentials identify the user and the process that made a connection.
type credentials struct {
	uid    uint32
	owner  uint32   // the user whose limits count: differs from uid in a user namespace
	pid    int      // for messages; 0 if the bus does not report it
	groups []uint32 // nil if the bus does not report them

	process *caller.Process // nil if the credentials are from the cache
}

const maxCachedCredentials = 1024

// of returns the credentials of a connection, from the cache or from the bus.
func (c *credentialsCache) of(ctx context.Context, conn *dbusconn.Conn, sender string) (credentials, error) {
	c.mu.Lock()
	who, ok := c.known[sender]
	ok = ok && c.conn == conn.Conn
	c.mu.Unlock()
	if ok {
		return who, nil
	}
	who, err := credentialsOf(ctx, conn, sender)
	if err != nil {
		return who, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= maxCachedCredentials || c.conn != conn.Conn {
		c.conn, c.known = conn.Conn, make(map[string]credentials)
	}
	kept := who
	kept.process = nil
	c.known[sender] = kept
	return who, nil
}

// proc is the kernel's directory of processes.
const proc = "/proc"

// credentialsOf queries the bus and identifies the process: by the pidfd that the bus opened
// when the connection was made, or by the pid if the bus has none (dbus-daemon 1.14).
func credentialsOf(ctx context.Context, conn *dbusconn.Conn, sender string) (credentials, error) {
	msg := &dbus.Message{
		Type: dbus.TypeMethodCall,
		Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldDestination: dbus.MakeVariant(busName), dbus.FieldPath: dbus.MakeVariant(busPath), dbus.FieldInterface: dbus.MakeVariant(busName),
			dbus.FieldMember: dbus.MakeVariant("GetConnectionCredentials"), dbus.FieldSignature: dbus.MakeVariant(dbus.SignatureOf("")),
		},
		Body: []any{sender},
	}
	answer, files := conn.Exchange(ctx, msg)
	var all map[string]dbus.Variant
	if err := answer.Store(&all); err != nil {
		closeAll(files)
		return credentials{}, err
	}
	uid, ok := all["UnixUserID"].Value().(uint32)
	if !ok {
		closeAll(files)
		return credentials{}, errors.New("the bus does not report the user of the connection")
	}
	pid, _ := all["ProcessID"].Value().(uint32)
	groups, _ := all["UnixGroupIDs"].Value().([]uint32)
	who := credentials{uid: uid, owner: uid, pid: int(pid), groups: groups}
	if pid == 0 {
		closeAll(files)
		return who, nil
	}
	var pidfd *os.File
	if index, ok := all["ProcessFD"].Value().(dbus.UnixFDIndex); ok && int(index) < len(files) {
		pidfd, files = files[index], slices.Delete(files, int(index), int(index)+1)
	}
	closeAll(files)
	return identified(who, pidfd), nil
}

// identified adds the process, by its pidfd or, if that is nil, by its pid.
func identified(who credentials, pidfd *os.File) credentials {
	var err error
	if pidfd != nil {
		who.process, err = caller.FromFD(proc, pidfd, who.pid, who.uid)
	} else {
		who.process, err = caller.Open(proc, who.pid, who.uid)
	}
	switch {
	case err == nil:
		who.owner = who.process.Owner
	case who.uid != 0: // the uid may be mapped in any user's namespace
		who.owner = caller.Unidentified
	}
	return who
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
