// Command trivial is the least that a Type=notify service written in Go can be:
// it says that it is ready and waits for SIGTERM. It is what a restart of
// dcm.service is compared with.
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
