package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// listenOn listens on "HOST:PORT", or on the socket at an absolute path.
func listenOn(address string) (net.Listener, error) {
	if strings.HasPrefix(address, "/") {
		return net.Listen("unix", address)
	}
	return net.Listen("tcp", address)
}

// answer is an HTTP server whose answer describes its process: the cgroup, and the variables of a lease.
func answer(address string) error {
	l, err := listenOn(address)
	if err != nil {
		return err
	}
	cgroup, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return err
	}
	server := http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		fmt.Fprintf(w, "%s%s\n", cgroup, os.Getenv("DCM_PARTITIONS"))
	})}
	return server.Serve(l)
}

// get prints the answer of such a server.
func get(address string) error {
	network := "tcp"
	if strings.HasPrefix(address, "/") {
		network = "unix"
	}
	conn, err := net.Dial(network, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n"); err != nil {
		return err
	}
	text, err := io.ReadAll(conn)
	if err != nil {
		return err
	}
	head, body, _ := strings.Cut(string(text), "\r\n\r\n")
	if fields := strings.Fields(head); len(fields) < 2 || fields[1] != "200" {
		return fmt.Errorf("%s answers %q", address, head)
	}
	fmt.Print(body)
	return nil
}
