package dbusapi

import (
	"fmt"
	"strings"

	"github.com/godbus/dbus/v5"
)

// doctype begins an introspection document ("Introspection Data Format" in the D-Bus
// specification). The document is written without package encoding/xml, which would add to the start
// time and memory of every program. Nothing in it needs to be escaped, since all names and types are
// constants of this package.
const doctype = `<!DOCTYPE node PUBLIC "-//freedesktop//DTD D-BUS Object Introspection 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/introspect.dtd">
`

func (o object) introspect(call) ([]any, error) {
	return o.published.encoded(string(o.path)+" "+introspectableInterface+".Introspect", func() any {
		var b strings.Builder
		b.WriteString(doctype + "<node>\n")
		for _, i := range o.interfaces() {
			i.describe(&b)
		}
		for _, name := range o.published.children(o.path) {
			fmt.Fprintf(&b, "<node name=%q></node>\n", name)
		}
		b.WriteString("</node>\n")
		return b.String()
	})
}

// describe writes the interface's description.
func (i iface) describe(b *strings.Builder) {
	fmt.Fprintf(b, "<interface name=%q>\n", i.name)
	for _, m := range i.methods {
		fmt.Fprintf(b, "<method name=%q>", m.name)
		args(b, ` direction="in"`, m.in)
		args(b, ` direction="out"`, m.out)
		b.WriteString("</method>\n")
	}
	for _, s := range signalsOf(i.name) {
		fmt.Fprintf(b, "<signal name=%q>", s.name)
		args(b, "", s.out)
		b.WriteString("</signal>\n")
	}
	for _, p := range i.properties {
		fmt.Fprintf(b, "<property name=%q type=%q access=\"read\">", p.name, dbus.SignatureOf(p.value))
		if p.emits != "" {
			fmt.Fprintf(b, "<annotation name=%q value=%q/>", emitsChanged, p.emits)
		}
		b.WriteString("</property>\n")
	}
	b.WriteString("</interface>\n")
}

func args(b *strings.Builder, direction string, all []arg) {
	for _, a := range all {
		fmt.Fprintf(b, "<arg name=%q type=%q%s/>", a.name, a.kind, direction)
	}
}

// signalsOf returns the signals of an interface.
func signalsOf(intf string) []method {
	switch intf {
	case Interface:
		return []method{{name: queuedSignal, out: []arg{{"position", "u"}, {"of", "u"}, {"reason", "s"}}}}
	case propertiesInterface:
		return []method{{name: "PropertiesChanged", out: []arg{{"interface", "s"}, {"changed", "a{sv}"}, {"invalidated", "as"}}}}
	case objectManagerInterface:
		return []method{
			{name: "InterfacesAdded", out: []arg{{"path", "o"}, {"interfaces", "a{sa{sv}}"}}},
			{name: "InterfacesRemoved", out: []arg{{"path", "o"}, {"interfaces", "as"}}},
		}
	}
	return nil
}
