// Command trivial is a minimal Type=notify service in Go: it reports that it is ready and waits
// for SIGTERM. Its restart is compared with that of dcm.service.
package main

import (
	"net"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	manager := &net.UnixAddr{Name: os.Getenv("NOTIFY_SOCKET"), Net: "unixgram"}
	conn, err := net.DialUnix("unixgram", nil, manager)
	if err == nil {
		_, err = conn.Write([]byte("READY=1"))
	}
	if err != nil {
		println(err.Error())
		os.Exit(1)
	}
	<-stop
}
