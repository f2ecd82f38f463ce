package vm

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
)

// monitor is a connection to QEMU's machine protocol (QMP). It is safe for concurrent use.
type monitor struct {
	mu   sync.Mutex
	conn net.Conn
	dec  *json.Decoder
}

type response struct {
	QMP    json.RawMessage // the greeting
	Event  string
	Return json.RawMessage
	Error  *struct{ Class, Desc string }
}

func newMonitor(conn net.Conn) (*monitor, error) {
	m := &monitor{conn: conn, dec: json.NewDecoder(conn)}
	var greeting response
	if err := m.dec.Decode(&greeting); err != nil {
		return nil, err
	}
	if greeting.QMP == nil {
		return nil, errors.New("QEMU's monitor sent no greeting")
	}
	_, err := m.execute("qmp_capabilities", nil)
	return m, err
}

func (m *monitor) execute(command string, arguments any) (json.RawMessage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	request := map[string]any{"execute": command}
	if arguments != nil {
		request["arguments"] = arguments
	}
	if err := json.NewEncoder(m.conn).Encode(request); err != nil {
		return nil, err
	}
	for {
		var r response
		if err := m.dec.Decode(&r); err != nil {
			return nil, err
		}
		if r.Error != nil {
			return nil, fmt.Errorf("%s: %s", command, r.Error.Desc)
		}
		if r.Return != nil {
			return r.Return, nil
		}
	}
}

// human runs a command of the monitor for people. Such a command prints its error.
func (m *monitor) human(line string) error {
	answer, err := m.execute("human-monitor-command", map[string]string{"command-line": line})
	if err != nil {
		return err
	}
	var text string
	if err := json.Unmarshal(answer, &text); err != nil {
		return err
	}
	if text = strings.TrimSpace(text); text != "" {
		return fmt.Errorf("%s: %s", line, text)
	}
	return nil
}
