package e2e_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"dcm/internal/e2e"
	"dcm/internal/lease"
	"dcm/internal/report"
)

// leases does at random what users, operators and crashes do to leases and reservations,
// and looks after each step whether a partition has two, or is lost to all. DCM_SOAK and
// DCM_SEED are those of the random trials.
func leases(t *testing.T, p product) {
	t.Parallel()
	length, err := time.ParseDuration(os.Getenv("DCM_SOAK"))
	if err != nil {
		length = shortSoak
	}
	seed, err := strconv.ParseUint(os.Getenv("DCM_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("seed: DCM_SEED=%d for %s", seed, length)
	s := newLessees(t, p, seed)
	steps := 0
	for end := time.Now().Add(length); time.Now().Before(end) && !t.Failed(); steps++ {
		s.trial()
	}
	t.Logf("%d steps, no partition twice and none lost: %s", steps, tally(s.count))
}

// lessees is a machine whose partitions come and go.
type lessees struct {
	machine
	rand     *rand.Rand
	count    map[string]int
	profile  string
	alpha    int // partitions reserved for alpha; none if 0
	alone    bool
	beta     int
	disquiet bool
}

// mostAsked is how many partitions somebody asks for at most.
const mostAsked = 5

func newLessees(t *testing.T, p product, seed uint64) *lessees {
	m := installWith(t, e2e.Trixie(), p, driverless())
	m.put("/etc/systemd/system/alpha.service", holder)
	m.put("/etc/systemd/system/beta.service", holder)
	m.run("systemctl daemon-reload; useradd --create-home --groups dcm ada; useradd --create-home --groups dcm bob")
	s := &lessees{machine: m, rand: rand.New(rand.NewPCG(seed, 0)), count: make(map[string]int), profile: "cpx-fast", alpha: 2, alone: true, beta: 1}
	s.configure()
	m.run("systemctl restart dcm; systemctl start alpha beta")
	s.well("at first")
	return s
}

func (s *lessees) configure() {
	s.t.Helper()
	text := fmt.Sprintf(reserving, s.profile, 0)
	text = text[:strings.Index(text, "[[reservation]]")]
	if s.alpha > 0 {
		text += fmt.Sprintf("[[reservation]]\nunit = \"alpha\"\npartitions = %d\nexclusive = %t\n", s.alpha, s.alone)
	}
	if s.beta > 0 {
		text += fmt.Sprintf("[[reservation]]\nunit = \"beta\"\npartitions = %d\nplace = \"spread\"\n", s.beta)
	}
	s.put(settings, text+"\n[leases]\nshares = 3\n")
}

// trial does one thing and looks at what has become of the partitions.
func (s *lessees) trial() {
	s.t.Helper()
	trials := []struct {
		name   string
		weight int
		do     func()
	}{
		{"acquire", 30, func() { s.acquire(1, "") }},
		{"several acquire at once", 10, func() { s.acquire(2+s.rand.IntN(6), "") }},
		{"one waits", 6, func() { s.acquire(1, "--wait") }},
		{"release", 16, s.release},
		{"kill of a holder", 20, s.killHolder},
		{"all end", 3, s.end},
		{"kill of the daemon", 4, func() { s.try("systemctl kill --signal=KILL dcm"); s.disquiet = true }},
		{"kill of the daemon while some acquire", 6, func() { s.acquire(4, "systemctl kill --signal=KILL dcm") }},
		{"daemon-reexec while some acquire", 3, func() { s.acquire(4, "systemctl daemon-reexec") }},
		{"daemon-reload while some acquire", 3, func() { s.acquire(4, "systemctl daemon-reload") }},
		{"kill of the message bus", 1, func() { s.acquire(3, "systemctl kill --signal=KILL dbus") }},
		{"kill of everything", 3, s.killAll},
		{"reservations change", 6, s.change},
		{"reservations change and it is killed", 4, s.changeKilled},
		{"repartition", 6, s.repartition},
		{"repartition while some acquire", 4, s.repartitionAmid},
		{"a service is started anew", 4, func() { s.try("systemctl restart alpha beta") }},
		{"the slice is stopped", 2, s.stopSlice},
		{"the guard is killed", 3, s.killGuard},
	}
	total := 0
	for _, t := range trials {
		total += t.weight
	}
	pick := s.rand.IntN(total)
	for _, t := range trials {
		if pick -= t.weight; pick < 0 {
			s.count[t.name]++
			t.do()
			s.well(t.name)
			return
		}
	}
}

func (s *lessees) moment() string { return fmt.Sprintf("0.%03d", s.rand.IntN(500)) }

// acquire has some users ask at once, and something done under it. Whoever has been
// given something stays; what was said to the others is on the console.
func (s *lessees) acquire(n int, during string) {
	s.t.Helper()
	wait := ""
	if during == "--wait" {
		wait, during = "--wait", ""
	}
	script := "cd /; rm -f /tmp/answer.*\n"
	for i := range n {
		who := []string{"", "setpriv --reuid=ada --regid=ada --init-groups ", "setpriv --reuid=bob --regid=bob --init-groups "}[s.rand.IntN(3)]
		kind := []string{"", "", "--exclusive", "--share 2", "--share 3"}[s.rand.IntN(5)]
		what := fmt.Sprintf("-n %d", 1+s.rand.IntN(mostAsked))
		if wait == "" && s.rand.IntN(12) == 0 {
			what = "--gpus 1"
		}
		place := []string{"pack", "spread", "link"}[s.rand.IntN(3)]
		// It holds no pipe of the script's, which would be waited for.
		script += fmt.Sprintf(`(setsid %s timeout --foreground 900 dcm run %s %s %s --place %s -- sh -c 'echo given >&3; exec 3>&-; exec sleep infinity' 3>/tmp/answer.%d >/dev/null 2>/tmp/error.%d </dev/null || echo "ended $?" >>/tmp/answer.%d) >/dev/null 2>&1 </dev/null &
`, who, what, kind, wait, place, i, i, i)
	}
	if during != "" {
		script += "sleep " + s.moment() + "; " + during + "\n"
		s.disquiet = true
	}
	if wait == "" {
		script += fmt.Sprintf("for i in $(seq 0 %d); do e2e-agent await /tmp/answer.$i e >/dev/null; done\n", n-1)
	} else {
		script += "sleep 0.1\n" // it may be served now or later
	}
	script += `for i in /tmp/answer.*; do cat $i; done; cat /tmp/error.* >&2; rm -f /tmp/error.*`
	r := s.try("umask 0; " + script)
	for line := range strings.Lines(r.Stdout) {
		s.count["answer: "+strings.TrimSpace(line)]++
	}
	if during == "" && strings.Contains(r.Stdout, "ended 1\n") && !strings.Contains(r.Stderr, "in line already") {
		s.t.Errorf("somebody was refused: %s", r.Stderr)
	}
}

// scopes are the leases that there are.
func (s *lessees) scopes() []string {
	s.t.Helper()
	return strings.Fields(s.run("systemctl list-units --plain --no-legend --state=active 'dcm-lease-*.scope' 'dcm-exclusive-*.scope' 'dcm-share*.scope' | cut -d' ' -f1"))
}

func (s *lessees) one() string {
	all := s.scopes()
	if len(all) == 0 {
		return ""
	}
	return all[s.rand.IntN(len(all))]
}

func (s *lessees) release() {
	if unit := s.one(); unit != "" {
		s.run("dcm release " + unit)
	}
}

func (s *lessees) killHolder() {
	if unit := s.one(); unit != "" {
		s.try("systemctl kill --signal=KILL " + unit)
	}
}

func (s *lessees) end() {
	s.try("for unit in $(systemctl list-units --plain --no-legend 'dcm-*.scope' | cut -d' ' -f1); do systemctl kill --signal=KILL $unit; done")
}

// killAll ends all of dcm and the holders at once.
func (s *lessees) killAll() {
	s.try("systemctl kill --signal=KILL dcm dcm-apply dcm-reserve dcm-guard alpha beta; systemctl start alpha beta")
	s.disquiet = true
	s.end()
}

func (s *lessees) change() {
	s.alpha, s.beta, s.alone = s.rand.IntN(5), s.rand.IntN(3), s.rand.IntN(2) == 0
	s.configure()
	s.disquiet = true
}

func (s *lessees) changeKilled() {
	s.change()
	s.try("sleep " + s.moment() + "; systemctl kill --signal=KILL " + []string{"dcm", "dcm-reserve", "dcm-guard", "dcm-apply"}[s.rand.IntN(4)])
}

// repartition is refused as long as there are leases.
func (s *lessees) repartition() {
	if s.rand.IntN(3) > 0 {
		s.end()
		s.gone()
	}
	s.otherProfile()
	before := s.scopes()
	r := s.try("dcm apply")
	if len(before) > 0 && r.Code == 0 {
		s.t.Errorf("with %s there was a repartition: %s", before, r.Stdout)
	}
	if len(before) == 0 && r.Code != 0 {
		s.t.Errorf("without a lease there was no repartition: %s", r.Stderr)
	}
	if len(before) > 0 {
		s.count["repartition refused"]++
		s.otherProfile()
	}
	s.disquiet = true
}

func (s *lessees) otherProfile() {
	s.profile = map[bool]string{true: "cpx-fast", false: "qpx-fast"}[s.profile == "qpx-fast"]
	s.configure()
}

func (s *lessees) repartitionAmid() {
	s.end()
	s.gone()
	s.otherProfile()
	s.acquire(3, "true")
	if len(s.scopes()) > 0 { // whichever was first
		s.end()
		s.gone()
	}
}

func (s *lessees) gone() {
	s.t.Helper()
	s.run("timeout 60 sh -c 'while systemctl list-units --plain --no-legend \"dcm-*.scope\" | grep -q .; do :; done'")
}

func (s *lessees) stopSlice() {
	s.run("systemctl stop dcm.slice; systemctl start alpha beta")
	s.disquiet = true
}

func (s *lessees) killGuard() {
	s.try("systemctl restart --no-block dcm-guard; sleep 0.0" + strconv.Itoa(s.rand.IntN(60)) + "; systemctl kill --signal=KILL dcm-guard")
	s.disquiet = true
}

// facts prints who has what: by PID 1, by the links, by opening as a shell of root's,
// and by dcm.
const facts = `echo "[units]"
for unit in $(systemctl list-units --plain --no-legend --state=active,deactivating,activating 'dcm-*.scope' alpha.service beta.service | cut -d' ' -f1); do
	echo "$unit $(systemctl show -P DeviceAllow $unit | tr '\n' ' ')"
done
echo "[links]"
for link in /dev/dcm/*/*; do [ ! -L $link ] || echo $link $(readlink $link); done
echo "[closed]"
for n in $(seq 128 191); do
	case $( (exec 3<>/dev/dri/renderD$n) 2>&1) in *"not permitted"*) echo /dev/dri/renderD$n ;; esac
done
echo "[waiting]"
pgrep -f '^dcm run'
echo "[dcm]"
dcm partitions --json`

// state is what facts tells.
type state struct {
	units  map[string][]string // unit → its nodes
	links  map[string]string
	closed []string // that a shell of root's cannot open
	waits  []string // processes that stand in line
	parts  []struct {
		Name    string   `json:"name"`
		Node    string   `json:"render_node"`
		Holders []string `json:"holders"`
	}
}

func (s *lessees) facts() state {
	s.t.Helper()
	text, rest, _ := strings.Cut(s.run(facts), "[dcm]\n")
	st := state{units: make(map[string][]string), links: make(map[string]string)}
	if err := json.Unmarshal([]byte(rest), &st.parts); err != nil {
		s.t.Fatalf("dcm partitions --json: %v: %s", err, rest)
	}
	section := ""
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		switch {
		case len(f) == 0:
		case strings.HasPrefix(f[0], "["):
			section = f[0]
		case section == "[links]" && len(f) == 2:
			st.links[f[0]] = f[1]
		case section == "[closed]":
			st.closed = append(st.closed, f[0])
		case section == "[waiting]":
			st.waits = append(st.waits, f[0])
		case section == "[units]":
			for _, path := range f[1:] {
				if strings.HasPrefix(path, "/dev/d") {
					st.units[f[0]] = append(st.units[f[0]], path)
				}
			}
		}
	}
	for unit, paths := range st.units {
		for i, path := range paths {
			if to, ok := st.links[path]; ok {
				paths[i] = to
			}
		}
		st.units[unit] = paths
	}
	return st
}

// well waits until all has come to rest and checks it.
func (s *lessees) well(after string) {
	s.t.Helper()
	if s.disquiet {
		s.disquiet = false
		s.run("systemctl reset-failed dcm dcm-apply dcm-reserve dcm-guard; systemctl restart dcm; timeout 60 sh -c 'while systemctl list-jobs --no-legend | grep -q .; do :; done'; systemctl start alpha beta")
	}
	var problems []string
	for range 60 { // ends of scopes are heard of, and the guard is told of them, a moment later
		if problems = s.problems(); len(problems) == 0 {
			break
		}
		s.count["looked again"]++
	}
	for _, text := range problems {
		s.t.Errorf("after %s: %s", after, text)
	}
}

func (s *lessees) problems() (out []string) {
	s.t.Helper()
	st := s.facts()
	p := decode[report.Partitions](s.machine, "partitions.json")
	kept, free, want := make(map[string]bool), 0, make(map[string]bool)
	for _, r := range p.Reservations {
		if len(r.Partitions) != r.Wants {
			out = append(out, fmt.Sprintf("reservation %s has %s of %d: %s", r.Name, r.Partitions, r.Wants, r.Reason))
		}
		for _, name := range r.Partitions {
			kept[name] = true
		}
	}
	if n := map[string]int{"cpx-fast": 64, "qpx-fast": 32}[s.profile]; len(st.parts) != n {
		out = append(out, fmt.Sprintf("there are %d partitions, want %d", len(st.parts), n))
	}
	for _, part := range st.parts {
		units := s.holders(st, part.Node)
		shared := 0
		for _, unit := range units {
			first, _ := lease.ParseName(units[0])
			if n, _ := lease.ParseName(unit); n.Kind == lease.Shared && n.Of == first.Of && len(units) <= n.Of {
				shared++
			}
		}
		if len(units) > 1 && shared < len(units) {
			out = append(out, fmt.Sprintf("%s has %s", part.Name, units))
		}
		if diff := missing(units, part.Holders); len(diff) > 0 {
			out = append(out, fmt.Sprintf("%s is %s's, and dcm says %s", part.Name, units, part.Holders))
		}
		if len(units) == 0 && !kept[part.Name] {
			free++
			if len(part.Holders) > 0 {
				out = append(out, fmt.Sprintf("%s is lost to %s", part.Name, part.Holders))
			}
		}
	}
	allow := st.units
	for _, node := range lease.ExclusiveNodes(p, allow) {
		if strings.Contains(node, "render") {
			want[node] = true
		}
	}
	if exclusive := slices.Sorted(maps.Keys(want)); !slices.Equal(exclusive, slices.Sorted(slices.Values(st.closed))) {
		out = append(out, fmt.Sprintf("exclusive are %s, and root's shell is kept out of %s", exclusive, st.closed))
	}
	if len(st.waits) > 0 && free >= mostAsked {
		out = append(out, fmt.Sprintf("%d are free, and processes %s wait", free, st.waits))
	}
	return append(out, s.obtainable(free)...)
}

func (s *lessees) holders(st state, node string) []string {
	var out []string
	for unit, nodes := range st.units {
		if slices.Contains(nodes, node) {
			out = append(out, unit)
		}
	}
	return out
}

func missing(all, among []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(among, s) })
}

// obtainable asks for all that is free, and for one more.
func (s *lessees) obtainable(free int) (out []string) {
	s.t.Helper()
	r := s.try(fmt.Sprintf("dcm run -n %d --dry-run >/dev/null; echo $?; dcm run -n %d --dry-run >/dev/null; echo $?", max(free, 1), free+1))
	want := "0 75"
	if free == 0 {
		want = "75 75"
	}
	if got := strings.Join(strings.Fields(r.Stdout), " "); got != want {
		out = append(out, fmt.Sprintf("%d are free, and asking for them and one more ends with %s: %s", free, got, r.Stderr))
	}
	return out
}
