package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"dcm/internal/engine/config/rule"
	"dcm/internal/engine/config/source"
)

// merged is the sum of the layers.
type merged struct {
	sum     *source.Node
	whole   bool   // all layers could be read, except that of agents
	lasting choice // of the layers that outlast the boot
	ended   string // why a selection until reboot has ended; "" if it has not

	unconfirmed *Unconfirmed // before its deadline; nil if there is none
	expired     *Unconfirmed // after its deadline; nil if there is none
}

// merge checks the layers by themselves and merges them. whole is false if a file could not be read. Unconfirmed
// selections whose deadline is before now do not count.
func merge(c *rule.Checker, layers []layer, whole bool, now time.Time) merged {
	m := merged{sum: &source.Node{Value: source.Table{}}, whole: whole}
	for i, root := range readForms(c, layers) {
		l := layers[i]
		if root == nil {
			m.whole = m.whole && l.agent
			continue
		}
		if l.agent {
			m.sum = withoutRedefined(c, m.sum, root)
		}
		if l.runtime {
			if root = m.current(root, now); root == nil {
				continue
			}
		} else {
			warnHidden(c, m.sum.At("profile"), root.At("profile"))
			warnDropped(c, "", m.sum, root)
		}
		m.sum = layOver(m.sum, root)
		if !l.runtime {
			m.lasting = says(m.sum)
		}
	}
	return m
}

// current returns the document of a runtime layer without what has ended, nil if nothing is left.
func (m *merged) current(root *source.Node, now time.Time) *source.Node {
	if m.ended = over(root, m.lasting); m.ended != "" {
		return nil
	}
	u := unconfirmedOf(root, m.lasting.name)
	if !u.expired(now) {
		m.unconfirmed = u
		return withoutConfirm(root)
	}
	m.expired, m.ended = u, u.ended()
	return withFormer(root)
}

// over returns a message if a selection until reboot has ended, because the persistent files no
// longer select the profile that it replaced. Otherwise it returns "".
func over(root *source.Node, lasting choice) string {
	before, ok := root.At("instead").Text()
	if !ok || OrEmpty(before) == lasting.name {
		return ""
	}
	at := lasting.source
	if at == "" {
		at = "nothing"
	}
	name, _ := root.At("profile").Text()
	return fmt.Sprintf("the selection of %s until reboot has ended: it replaced %s, and now %s selects %s",
		OrNone(name), OrNone(before), at, OrNone(lasting.name))
}

// says returns the profile that a document selects, valid or not.
func says(root *source.Node) choice {
	n := root.At("profile")
	if n == nil {
		return choice{}
	}
	name, _ := n.Text()
	return choice{OrEmpty(name), n.Place()}
}

// warnHidden warns of a selection that a later layer overrides, since an edit of it would have no
// effect.
func warnHidden(c *rule.Checker, before, now *source.Node) {
	if before == nil || now == nil || before.Value == now.Value || before.Value == "" || before.Value == rule.None {
		return
	}
	c.Warnings = append(c.Warnings, fmt.Sprintf("%s: profile = %s has no effect: %s selects %s",
		before.Place(), source.QuoteShort(fmt.Sprint(before.Value)), now.Place(), source.QuoteShort(fmt.Sprint(now.Value))))
}

// warnDropped warns of entries of a list that a later layer replaces with a list without them. An empty list drops
// all entries on purpose.
func warnDropped(c *rule.Checker, key string, before, now *source.Node) {
	below, above := source.Children(before), source.Children(now)
	for _, name := range above.Keys() {
		if below[name] != nil {
			warnDropped(c, source.DottedKey(key, name), below[name], above[name])
		}
	}
	if len(now.Items()) == 0 {
		return
	}
	var gone []string
	for _, item := range before.Items() {
		if text := entry(item); text != "" && !slices.ContainsFunc(now.Items(), func(n *source.Node) bool { return entry(n) == text }) {
			gone = append(gone, text)
		}
	}
	if len(gone) > 0 {
		c.Warn(now, "%s replaces the list at %s, so that these entries there have no effect: %s", key, before.Place(), strings.Join(gone, ", "))
	}
}

// entry returns an element of a list as TOML, the name of a service without its suffix; "" for a table.
func entry(n *source.Node) string {
	if s, ok := n.Text(); ok {
		return source.QuoteShort(strings.TrimSuffix(s, ".service"))
	}
	return source.FormatScalar(n.Value)
}
