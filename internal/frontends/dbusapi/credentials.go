package dbusapi

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/godbus/dbus/v5"

	"dcm/internal/linux/caller"
	"dcm/internal/linux/dbusconn"
)

// credentialsCache caches credentials by the unique name of the connection. A bus never uses a unique
// name twice, so entries stay valid as long as the daemon's own connection. A full cache is emptied.
type credentialsCache struct {
	mu    sync.Mutex
	conn  *dbus.Conn // the daemon's connection to the bus with these names
	known map[string]credentials
}

// credentials identify the user and the process that made a connection.
type credentials struct {
	uid    uint32
	owner  uint32   // the user whose limits apply: differs from uid in a user namespace
	pid    int      // used in messages only; 0 if the bus does not report it
	groups []uint32 // nil if the bus does not report them

	process *caller.Process // nil if the credentials are from the cache, or the process has ended
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
	c.known[strings.Clone(sender)] = kept // sender is part of a buffer of 4 KiB, which an entry would retain
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

// identified adds the process. It opens the process by its PID if pidfd is nil.
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
	case who.uid != 0: // the process has ended, so the owner of its user namespace is not known
		who.owner = caller.Unidentified
	}
	return who
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
