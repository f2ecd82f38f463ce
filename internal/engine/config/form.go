package config

import (
	"dcm/internal/engine/config/rule"
	"dcm/internal/engine/config/source"
)

// selection is the form of [SelectionFile] in [Paths].Runtime. It holds as long as
// the files that stay select what they selected when it was made.
func selection() rule.Rule {
	return rule.Table(map[string]rule.Rule{
		"version": rule.Scalar("the integer 1", version),
		"profile": rule.Scalar("a string", rule.Selectable),
		"instead": rule.Scalar("a string", rule.Selectable),
	}, nil)
}

func readSelection(c *rule.Checker, l layer) *source.Node {
	root, broken := source.ParseTOML(l.file, l.text)
	if broken != nil {
		c.Problems = append(c.Problems, *broken)
		return nil
	}
	c.Root = selection()
	c.Root.Check(c, "", root)
	return root
}
