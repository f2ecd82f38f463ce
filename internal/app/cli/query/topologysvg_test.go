package query

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/lease"
)

// The picture is XML, also with names of processes that have characters of XML. Each partition is a cell with its
// holder as the title, and each GPU a box.
func TestTopologySVG(t *testing.T) {
	var book []lease.Allocation
	for i, address := range []partition.Address{"0000:05:00.0", "0000:26:00.0"} {
		for p := range 4 {
			book = append(book, lease.Allocation{Part: runstate.Part{Name: string(address), GPU: address, Index: p, Domain: p / 2, NUMA: i, Hive: 0xa1}})
		}
	}
	book[0].Units, book[2].For, book[5].Users = []string{"dcm-lease-1000-3a64db49.scope"}, "llm", []string{"a<b>&c[4711]"}
	cells, titles, texts := elements(t, topologySVG(book))
	if diff := cmp.Diff(map[string]int{"box": 2, "lease": 2, "reserved": 2, "other": 2, "free": 6}, cells); diff != "" { // each kind once in the legend
		t.Errorf("cells (-want +got):\n%s", diff)
	}
	for _, want := range []string{"0000:05:00.0: dcm-lease-1000-3a64db49.scope", "0000:26:00.0: a<b>&c[4711]", "0000:26:00.0: free"} {
		if !strings.Contains(titles, want+"\n") {
			t.Errorf("no title %q in\n%s", want, titles)
		}
	}
	for _, want := range []string{"NUMA 0", "NUMA 1", "05", "26", "reserved"} {
		if !strings.Contains(texts, want+"\n") {
			t.Errorf("no text %q in\n%s", want, texts)
		}
	}
	if _, _, texts := elements(t, topologySVG(nil)); !strings.Contains(texts, "free") {
		t.Errorf("without partitions: %q", texts)
	}
}

// elements counts the rectangles by class, and returns the titles and texts, each on a line.
func elements(t *testing.T, svg string) (cells map[string]int, titles, texts string) {
	t.Helper()
	cells = make(map[string]int)
	var in string
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return cells, titles, texts
		}
		if err != nil {
			t.Fatalf("%v:\n%s", err, svg)
		}
		switch e := token.(type) {
		case xml.StartElement:
			in = e.Name.Local
			for _, a := range e.Attr {
				if in == "rect" && a.Name.Local == "class" {
					cells[a.Value]++
				}
			}
		case xml.EndElement:
			in = ""
		case xml.CharData:
			switch in {
			case "title":
				titles += string(e) + "\n"
			case "text":
				texts += string(e) + "\n"
			}
		}
	}
}
