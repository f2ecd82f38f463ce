package e2e_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"dcm/internal/testkit/e2e"
)

// recipes runs the recipes of dcm-partitions(7) as they are printed.
func recipes(t *testing.T, p product) {
	t.Parallel()
	printed := printedRecipes(t)
	for _, suite := range []string{"bookworm", "trixie"} {
		t.Run(suite, func(t *testing.T) {
			t.Parallel()
			seed := driverless()
			// The programs of the administrator. A profile with 64 partitions is selected.
			seed["/usr/local/bin/infer"] = e2e.File{Mode: 0o755, Content: []byte("#!/bin/sh\nexec e2e-agent answer \"$2:$4\"\n")}
			seed["/usr/local/bin/jupyter"] = e2e.File{Mode: 0o755, Content: []byte("#!/bin/sh\nexec e2e-agent answer \"${3#--sock=}\"\n")}
			m := installWith(t, e2e.Balanced(suite), p, seed)
			m.put(settings, selecting("cpx-fast"))
			// The group is udev's on other hosts.
			m.run("groupadd --system --force render; systemctl restart dcm; for user in ada bob eve; do useradd --create-home --shell /bin/bash $user; done")
			for _, s := range []struct {
				title string
				run   func(machine, []string)
			}{
				{"Eight inference services with a load balancer", balancedServices},
				{"Notebooks on demand", notebooksOnDemand},
				{"Course room", courseRoom},
			} {
				t.Run(strings.ToLower(s.title), func(t *testing.T) {
					blocks := printed[s.title]
					if len(blocks) == 0 {
						t.Fatalf("dcm-partitions(7): no recipe %q, found %q", s.title, printed)
					}
					s.run(m.in(t), blocks)
				})
			}
		})
	}
}

// printedRecipes returns the commands of each recipe by its title, as the manual page prints them.
func printedRecipes(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../../../packaging/man/dcm-partitions.7")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n.SH RECIPES\n")
	section, _, _ = strings.Cut(section, "\n.SH ")
	out := make(map[string][]string)
	unescaped := strings.NewReplacer(`\-`, "-", `\e`, `\`, `\(aq`, "'", `\(dq`, `"`)
	for _, recipe := range strings.Split(section, "\n.SS ")[1:] {
		title, rest, _ := strings.Cut(recipe, "\n")
		for _, block := range strings.Split(rest, "\n.nf\n.RS 4\n")[1:] {
			block, _, _ = strings.Cut(block, "\n.RE\n.fi")
			out[title] = append(out[title], unescaped.Replace(block))
		}
	}
	return out
}

// balancedServices: each service has a partition of its own, and requests reach all services that run.
func balancedServices(m machine, blocks []string) {
	if len(blocks) != 2 {
		m.t.Fatalf("blocks: got %d, want services and load balancer", len(blocks))
	}
	m.run(blocks[0])
	var nodes []string
	for _, n := range strings.Fields("1 2 3 4 5 6 7 8") {
		m.run("e2e-agent await-command '[ \"$(systemctl is-active infer@" + n + ")\" = active ]'")
		mine := m.mine("infer-" + n)
		if len(mine) != 1 || slices.Contains(nodes, mine[0]) || m.opens("infer@"+n+".service", mine...) != "yes" {
			m.t.Errorf("nodes of infer@%s: got %s after %s, want one more that it can open", n, mine, nodes)
		}
		nodes = append(nodes, mine...)
	}
	if others := m.opens("infer@1.service", nodes[1:]...); strings.Contains(others, "yes") {
		m.t.Errorf("nodes of the other services opened by infer@1: got %s", others)
	}
	m.run(blocks[1])
	m.until("e2e-agent get 127.0.0.1:8080")
	answered := make(map[string]int)
	ask := func() {
		clear(answered)
		for range 64 {
			for line := range strings.Lines(m.run("e2e-agent get 127.0.0.1:8080")) {
				if _, unit, ok := strings.Cut(strings.TrimSpace(line), "/dcm-infer"); ok {
					answered[unit]++
				}
			}
		}
	}
	if ask(); len(answered) != 8 {
		m.t.Errorf("services that answered 64 requests: got %v, want eight", answered)
	}
	m.run("systemctl stop infer@3")
	if ask(); len(answered) != 7 {
		m.t.Errorf("services that answered while one is stopped: got %v, want seven", answered)
	}
	m.run("systemctl disable --now infer@1 infer@2 infer@3 infer@4 infer@5 infer@6 infer@7 infer@8; systemctl stop haproxy; rm /etc/dcm/dcm.toml.d/infer.toml; dcm apply")
}

// notebooksOnDemand: a connection starts the notebook in a lease, and its end frees the partition.
func notebooksOnDemand(m machine, blocks []string) {
	if len(blocks) != 1 {
		m.t.Fatalf("blocks: got %d, want one", len(blocks))
	}
	m.run(blocks[0])
	if text := m.run("dcm leases"); text != "There is no lease." {
		m.t.Errorf("leases before a connection: got %s", text)
	}
	m.exits(1, ada[:strings.Index(ada, "--reuid=ada")]+"--reuid=bob --regid=bob --init-groups e2e-agent get /run/notebook/ada", "permission denied")
	text := m.run(ada + "e2e-agent get /run/notebook/ada")
	l := m.lease()
	if l.User != "ada" || l.Command != "jupyter" || len(l.Partitions) != 1 || l.Until == nil || !hasAll(text, l.Lease, l.Partitions[0]) {
		m.t.Errorf("notebook after a connection: got %+v and the answer %s", l, text)
	}
	// As after half an hour without a connection.
	m.put("/run/systemd/system/notebook@.service.d/soon.conf", "[Service]\nExecStart=\nExecStart=/lib/systemd/systemd-socket-proxyd --exit-idle-time=1s /run/jupyter-%i/socket\n")
	m.run("systemctl daemon-reload; systemctl restart notebook@ada.service")
	m.run(ada + "e2e-agent get /run/notebook/ada") // the time begins with the end of a connection
	m.until(noLeases)
	m.until("[ \"$(systemctl is-active jupyter@ada notebook@ada.service | sort -u)\" = inactive ]")
	m.run(ada + "e2e-agent get /run/notebook/ada") // starts it again
	m.until(noLeases)
	m.run("systemctl disable --now notebook@ada.socket; rm -r /run/systemd/system/notebook@.service.d")
}

// courseRoom: a login gets a share of a partition, and others get none.
func courseRoom(m machine, blocks []string) {
	if len(blocks) != 2 {
		m.t.Fatalf("blocks: got %d, want begin and end", len(blocks))
	}
	m.run(blocks[0])
	login := func(user string) string {
		return m.run("echo 'echo lease=$DCM_LEASE on=$DCM_PARTITIONS; exit' | script --quiet --return --command 'su --login " + user + "' /dev/null")
	}
	for _, student := range []string{"bob", "eve"} {
		if text := login(student); !strings.Contains(text, "lease=dcm-share4-") || !strings.Contains(text, "on=0000:") {
			m.t.Errorf("login of %s: want a shared lease, got %s", student, text)
		}
	}
	if text := login("ada"); strings.Contains(text, "lease=dcm") {
		m.t.Errorf("login of a user outside of the course: got %s", text)
	}
	m.run("(sleep infinity | script --quiet --command 'su --login bob' /dev/null) >/dev/null 2>&1 </dev/null &")
	m.until("dcm leases | grep -q bob")
	// The stop at the end fails if a login ends at that moment.
	if text := m.try(blocks[1]).Stdout; !hasAll(text, "bob", "eve", "PARTITION-HOURS") {
		m.t.Errorf("usage at the end of the course: want bob and eve, got %s", text)
	}
	m.until(noLeases)
	if text := login("bob"); strings.Contains(text, "lease=dcm") {
		m.t.Errorf("login after the course: got %s", text)
	}
	m.run("rm /etc/dcm/dcm.toml.d/course.toml; systemctl reload dcm")
}
