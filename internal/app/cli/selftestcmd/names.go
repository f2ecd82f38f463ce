package selftestcmd

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"

	"dcm/internal/engine/host"
	"dcm/internal/gpu/record"
	"dcm/internal/linux/unitname"
)

// names are the names that the archive must not have: of the host and its users, and of all units,
// users and processes that the test has met.
type names struct{ found record.Names }

// all returns the names, long ones first: a name can be a part of another one.
func (n *names) all() record.Names {
	order := func(list []string) []string {
		list = slices.Clone(list)
		slices.SortFunc(list, func(a, b string) int { return len(b) - len(a) })
		return slices.DeleteFunc(slices.Compact(list), func(s string) bool { return !isName.MatchString(s) })
	}
	return record.Names{Hosts: order(n.found.Hosts), Users: order(n.found.Users), Units: order(n.found.Units), Processes: order(n.found.Processes)}
}

// isName matches what can identify a host or a user. A number cannot, and its removal would change results.
var isName = regexp.MustCompile(`[A-Za-z_].`)

// addHost adds the names of the host and of its users.
func (n *names) addHost(h *host.Host) {
	for _, file := range []string{"etc/hostname", "proc/sys/kernel/hostname"} {
		if text, err := os.ReadFile(h.Path(file)); err == nil {
			n.found.Hosts = append(n.found.Hosts, strings.TrimSpace(string(text)))
		}
	}
	for _, name := range []string{"SUDO_USER", "USER", "LOGNAME"} {
		n.found.Users = append(n.found.Users, os.Getenv(name))
	}
	if passwd, err := os.ReadFile(h.Path("etc/passwd")); err == nil {
		n.found.Users = append(n.found.Users, record.People(string(passwd))...)
	}
}

func (n *names) addClients(units []string) { n.found.Units = append(n.found.Units, units...) }

// addFrom adds the names in the status or in another document of dcm.
func (n *names) addFrom(document any) {
	text, err := json.Marshal(document)
	if err != nil {
		return
	}
	var value any
	if json.Unmarshal(text, &value) == nil {
		n.add("", value)
	}
}

// add adds the names in a value that has this key in its document.
func (n *names) add(key string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, value := range v {
			n.add(key, value)
		}
	case []any:
		for _, value := range v {
			n.add(key, value)
		}
	case string:
		n.addText(key, v)
	}
}

func (n *names) addText(key, text string) {
	switch key {
	case "unit", "units", "services", "waits_for", "pending", "restarted":
		if !slices.Contains(unitname.All(), text) {
			n.found.Units = append(n.found.Units, text)
		}
	case "user", "lessee", "sudo", "login":
		n.found.Users = append(n.found.Users, text)
	case "command":
		n.found.Processes = append(n.found.Processes, text)
	case "holder", "holders": // "python[4711]", "reservation NAME", a unit
		text = strings.TrimPrefix(text, "reservation ")
		if process, _, ok := strings.Cut(text, "["); ok {
			n.found.Processes = append(n.found.Processes, process)
			return
		}
		n.found.Units = append(n.found.Units, text)
	}
}

// The kernel names processes in messages about them: "process NAME pid 4711 thread NAME:cs0 pid 4712",
// "CPU: 3 PID: 4711 Comm: NAME", "task NAME:4711".
var (
	inProcess = regexp.MustCompile(`\b(process|thread) .+? (pid )`)
	inComm    = regexp.MustCompile(`\b(Comm: ).+?( Not tainted| Tainted|$)`)
	inTask    = regexp.MustCompile(`\b(task )\S.*?(:[0-9]+ )`)
)

// withoutProcesses removes the names of processes from lines of the kernel.
func withoutProcesses(lines []byte) []byte {
	var out []string
	for line := range strings.SplitSeq(string(lines), "\n") {
		line = inProcess.ReplaceAllString(line, "$1 PROCESS $2")
		line = inComm.ReplaceAllString(line, "${1}PROCESS$2")
		out = append(out, inTask.ReplaceAllString(line, "${1}PROCESS$2"))
	}
	return []byte(strings.Join(out, "\n"))
}
