package metrics

import (
	"bytes"
	"strconv"
	"strings"
)

// exposition builds a document in Prometheus' text format, see
// https://prometheus.io/docs/instrumenting/exposition_formats/. It does not check for duplicate names
// and missing label values; the tests of this package do.
type exposition struct{ families []*family }

// family holds all samples of one metric; the format requires them to be consecutive.
type family struct {
	name, help, kind string
	labels           []string
	samples          []sample
}

type sample struct {
	value  float64
	labels []string // the values, as many as the family has labels
}

func (e *exposition) gauge(name, help string, labels ...string) *family {
	return e.add(&family{name: "dcm_" + name, help: help, kind: "gauge", labels: labels})
}

func (e *exposition) counter(name, help string, labels ...string) *family {
	return e.add(&family{name: "dcm_" + name, help: help, kind: "counter", labels: labels})
}

func (e *exposition) add(f *family) *family {
	e.families = append(e.families, f)
	return f
}

func (f *family) set(value float64, labels ...string) {
	f.samples = append(f.samples, sample{value, labels})
}

// text returns the document without families that have no sample, as Prometheus' library does.
func (e *exposition) text() []byte {
	var b bytes.Buffer
	for _, f := range e.families {
		if len(f.samples) == 0 {
			continue
		}
		b.WriteString("# HELP " + f.name + " " + escape(f.help, `\`, `\\`, "\n", `\n`) + "\n")
		b.WriteString("# TYPE " + f.name + " " + f.kind + "\n")
		for _, s := range f.samples {
			b.WriteString(f.name + f.pairs(s) + " " + strconv.FormatFloat(s.value, 'g', -1, 64) + "\n")
		}
	}
	return b.Bytes()
}

func (f *family) pairs(s sample) string {
	if len(f.labels) == 0 {
		return ""
	}
	pairs := make([]string, len(f.labels))
	for i, label := range f.labels {
		pairs[i] = label + `="` + escape(s.labels[i], `\`, `\\`, "\n", `\n`, `"`, `\"`) + `"`
	}
	return "{" + strings.Join(pairs, ",") + "}"
}

// escape replaces strings as [strings.NewReplacer] does, and also invalid UTF-8. For one invalid byte
// the collector would reject the whole file.
func escape(text string, oldnew ...string) string {
	return strings.NewReplacer(oldnew...).Replace(strings.ToValidUTF8(text, "\ufffd"))
}
