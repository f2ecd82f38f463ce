package top

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/frontends/status"
	"dcm/internal/text"
)

func known[T any](v T) *T { return &v }

// three returns three partitions: one in use, one reserved, one of which nothing is known.
func three() status.Usage {
	return status.Usage{Taken: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Parts: []status.PartUse{
		{Name: "0000:05:00.0-0", GPU: "0000:05:00.0", Mode: "CPX/NPS4", NUMA: 0, Memory: 24 << 30, Used: known(uint64(0)), Busy: known(0.0), Holders: []string{"reservation vllm"}},
		{Name: "0000:05:00.0-1", GPU: "0000:05:00.0", Mode: "CPX/NPS4", NUMA: 0, Memory: 24 << 30, Used: known(uint64(13 << 29)), Busy: known(97.4),
			Holders:   []string{"dcm-lease-1000-4f1c09aa.scope"},
			Processes: []status.Process{{PID: 4711, Command: "python3", User: "alice"}, {PID: 4712, User: "alice"}, {PID: 4713, User: "bob"}}},
		{Name: "0000:05:00.0-2", GPU: "0000:05:00.0", Mode: "CPX/NPS4", NUMA: -1},
	}}
}

func TestView_EightyColumns(t *testing.T) {
	m := newModel(Order{By: "busy"}, 2*time.Second)
	m.usage, m.loaded = three(), true
	want := []string{
		"dcm top - 03:04:05  3 partitions, 2 held, 1 with processes",
		"by busy, every 2s; h for help, q to quit",
		"0000:05:00.0 CPX/NPS4 ▕████████████░░░░░░░░░░░░▏  49 %  -               2/3 held",
		"PARTITION        USED   SIZE BUSY% USER     HOLDER         COMMAND      PIDS   ",
		"0000:05:00.0-1   6.5G    24G    97 alice+1  lease 4f1c09aa python3      4711+2 ",
		"0000:05:00.0-0     0B    24G     0          for vllm                           ",
		"0000:05:00.0-2      -      -     -          free                               ",
	}
	if d := cmp.Diff(want, m.view()); d != "" {
		t.Errorf("view (-want +got):\n%s", d)
	}
}

func TestText_UnknownValues(t *testing.T) {
	u := three()
	u.Hide(status.PartHolders, errors.New("PID 1 does not answer\nhint: see systemctl status"))
	u.Hide(status.PartProcesses, errors.New("some processes could not be inspected"))
	text := Text(u, Order{By: "partition"}, 0)
	if strings.Contains(text, "free") || strings.Contains(text, "held") || strings.Contains(text, "with processes") {
		t.Errorf("unknown values are shown as known:\n%s", text)
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if got := strings.Fields(lines[len(lines)-1]); !cmp.Equal(got, []string{"0000:05:00.0-2", "CPX/NPS4", "-", "-", "-", "-", "-", "-", "-", "-"}) {
		t.Errorf("last line: got %q", got)
	}
	m := newModel(Order{By: "busy"}, time.Second)
	m.usage, m.loaded = u, true
	if got := m.view()[1]; got != "by busy; incomplete: PID 1 does not answer; hint: see systemctl status" {
		t.Errorf("second line: got %q", got)
	}
}

func TestText_NoPartitions(t *testing.T) {
	u := status.Usage{Taken: three().Taken}
	if got, want := strings.SplitN(Text(u, Order{By: "partition"}, 0), "\n", 2)[0], "0 partitions: dcm gpus shows the GPUs of this host"; !strings.HasSuffix(got, want) {
		t.Errorf("summary without partitions: got %q, want %q", got, want)
	}
}

func TestText_Sort(t *testing.T) {
	for column, want := range map[string]string{
		"partition": "0 1 2", "mode": "0 1 2", "numa": "2 0 1", "used": "1 0 2", "size": "0 1 2", "busy": "1 0 2",
		"user": "1 0 2", "holder": "1 0 2", "command": "1 0 2", "pids": "1 0 2",
	} {
		for _, reverse := range []bool{false, true} {
			var got []string
			for line := range strings.Lines(Text(three(), Order{By: column, Reverse: reverse}, 0)) {
				if name, _, _ := strings.Cut(line, " "); strings.HasPrefix(name, "0000:") {
					got = append(got, name[len(name)-1:])
				}
			}
			expect := want
			if reverse {
				expect = want[4:] + want[1:4] + want[:1]
			}
			if strings.Join(got, " ") != expect {
				t.Errorf("by %s, reversed %t: %s, want %s", column, reverse, got, expect)
			}
		}
	}
	if len(Columns()) != 10 {
		t.Errorf("columns are %q", Columns())
	}
}

func TestFit(t *testing.T) {
	for _, test := range []struct {
		in    string
		width int
		want  string
	}{
		{"alice", 8, "alice   "},
		{"alice-of-wonderland", 8, "alic…and"},
		{"北京北京北京", 8, "北京…京 "},
		{"\x1b[31mred", 20, `\x1b[31mred         `},
		{"a\u202eb", 10, `a\u202eb  `},
		{"é", 3, "é  "},
		{"abc", 0, ""},
		{"abc", 1, "…"},
	} {
		if got := fit(test.in, test.width, false); got != test.want || text.Width(got) != test.width {
			t.Errorf("fit(%q, %d): got %q, want %q", test.in, test.width, got, test.want)
		}
	}
	for bytes, want := range map[uint64]string{0: "0B", 1023: "1023B", 1024: "1K", 13 << 29: "6.5G", 192 << 30: "192G", 1000 << 20: "1000M", 1023<<20 + 1<<19: "1024M", 1 << 63: "8E"} {
		if got := formatBytes(bytes); got != want || text.Width(got) > 6 {
			t.Errorf("formatBytes(%d): got %q, want %q", bytes, got, want)
		}
	}
}

// For any content and any size, no line is wider than the screen, and there are no more lines than it
// has.
func TestView_AnySize(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		m := newModel(Order{By: "busy"}, time.Second)
		m.usage, m.loaded, m.help = three(), r.IntN(5) > 0, r.IntN(5) == 0
		for i := range r.IntN(100) {
			m.usage.Parts = append(m.usage.Parts, status.PartUse{Name: fmt.Sprint("0000:26:00.0-", i), Holders: []string{strings.Repeat("界", r.IntN(60))}})
		}
		if r.IntN(4) == 0 {
			m.err = errors.New(strings.Repeat("no ", 99))
		}
		m.width, m.height = 1+r.IntN(200), 1+r.IntN(100)
		for range r.IntN(10) {
			all := []key{"h", "<", ">", "r", "x", keyUp, keyDown, keyLeft, keyRight, keyPageUp, keyPageDown, keyHome, keyEnd, keyOther, keyEscape}
			var a action
			if m, a = m.press(all[r.IntN(len(all))]); a != nothing {
				t.Fatalf("action of a key: got %d", a)
			}
		}
		lines := m.view()
		if len(lines) > m.height {
			t.Fatalf("%d lines on a screen of %d", len(lines), m.height)
		}
		for _, l := range lines {
			if text.Width(l) > m.width || strings.ContainsAny(l, "\n\x1b") {
				t.Fatalf("%q on a screen of %d", l, m.width)
			}
		}
	}
}

func TestView_Scrolling(t *testing.T) {
	m := newModel(Order{By: "partition", Each: true}, time.Second)
	for i := range 64 {
		m.usage.Parts = append(m.usage.Parts, status.PartUse{Name: fmt.Sprint(i)})
	}
	m.loaded, m.height = true, 11
	shown := func() string {
		lines := m.view()
		return strings.Fields(lines[m.fixed()])[0] + "-" + strings.Fields(lines[len(lines)-1])[0]
	}
	for _, step := range []struct {
		key  key
		want string
	}{{keyUp, "0-6"}, {keyDown, "1-7"}, {keyPageDown, "8-14"}, {keyEnd, "57-63"}, {keyDown, "57-63"}, {keyPageUp, "50-56"}, {keyHome, "0-6"}, {keyEnd, "57-63"}, {"r", "63-57"}} {
		m, _ = m.press(step.key)
		if got := shown(); got != step.want {
			t.Errorf("after %q: %s, want %s", step.key, got, step.want)
		}
	}
	m.height = 100
	if got := shown(); got != "63-0" {
		t.Errorf("on a larger screen: %s", got)
	}
}

func TestParseKeys(t *testing.T) {
	for sent, want := range map[string][]key{
		"qr ":                               {"q", "r", " "},
		"\x1b[A\x1bOB\x1b[C\x1b[D":          {keyUp, keyDown, keyRight, keyLeft},
		"\x1b[5~\x1b[6~\x1b[H\x1b[F\x1b[1~": {keyPageUp, keyPageDown, keyHome, keyEnd, keyHome},
		"\x1b[1;5C<":                        {keyOther, "<"},
		"\x1b\x1b[A":                        {keyEscape, keyUp},
		"\x03":                              {ctrlC},
	} {
		got, rest := parseKeys(sent, false)
		if d := cmp.Diff(want, got); d != "" || rest != "" {
			t.Errorf("%q (-want +got), rest %q:\n%s", sent, rest, d)
		}
		// The same in any pieces.
		var parts []key
		left := ""
		for i := range sent {
			var some []key
			some, left = parseKeys(left+sent[i:i+1], false)
			parts = append(parts, some...)
		}
		if d := cmp.Diff(want, parts); d != "" {
			t.Errorf("%q byte by byte (-want +got):\n%s", sent, d)
		}
	}
	if got, rest := parseKeys("\x1b", true); len(got) != 1 || got[0] != keyEscape || rest != "" {
		t.Errorf("a single escape: got %q, rest %q", got, rest)
	}
}

func FuzzKeys(f *testing.F) {
	f.Add("\x1b[1;5Cq\x1b", true)
	f.Fuzz(func(t *testing.T, sent string, whole bool) {
		all, rest := parseKeys(sent, whole)
		if len(all) > len(sent) || whole && rest != "" || !strings.HasSuffix(sent, rest) {
			t.Errorf("%q: %q, rest %q", sent, all, rest)
		}
	})
}

func TestText_FoldsFreePartitions(t *testing.T) {
	u := three()
	for i := range 5 {
		u.Parts = append(u.Parts, status.PartUse{Name: fmt.Sprintf("0000:05:00.0-%d", 3+i), GPU: "0000:05:00.0", Mode: "CPX/NPS4", Memory: 24 << 30, Used: known(uint64(0)), Busy: known(0.0)})
	}
	u.Parts = append(u.Parts, status.PartUse{Name: "0000:26:00.0-0", GPU: "0000:26:00.0", Mode: "CPX/NPS4", Memory: 24 << 30, Used: known(uint64(0)), Busy: known(0.0)})
	names := func(o Order) (all []string) {
		for line := range strings.Lines(Text(u, o, 120)) {
			if strings.Contains(line, ":00.0-") {
				all = append(all, strings.Fields(line)[0])
			}
		}
		return all
	}
	if diff := cmp.Diff([]string{"0000:05:00.0-0", "0000:05:00.0-1", "0000:05:00.0-2", "05:00.0-[3-7]", "0000:26:00.0-0"}, names(Order{By: "partition"})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := len(names(Order{By: "partition", Each: true})); n != 9 {
		t.Errorf("each: %d rows, want 9", n)
	}
}
